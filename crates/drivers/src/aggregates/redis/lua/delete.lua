-- Removes all that is kept of metrics in a shard.
--
-- KEYS[1]  the shard's tag
-- ARGV     count of sacks, number of the sack, token; then the id of each metric
-- Answers  '', or the token that is held against it
for i = 4, #ARGV do
  redis.call('HDEL', KEYS[1] .. ':h', ARGV[i])
  redis.call('UNLINK', KEYS[1] .. ':i:' .. ARGV[i], KEYS[1] .. ':b:' .. ARGV[i])
end
return ''
