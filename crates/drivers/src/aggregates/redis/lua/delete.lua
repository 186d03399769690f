-- Removes metrics' heads and blocks from a shard.
--
-- KEYS     the shard's `:f`, `:c`, `:h`, and `:i`, `:b` of each metric
-- ARGV     count of sacks, number of the sack, token; then the id of each metric
-- Returns  '', or the higher token that fences this one off
for i = 4, #ARGV do
  redis.call('HDEL', tag .. ':h', ARGV[i])
  redis.call('UNLINK', tag .. ':i:' .. ARGV[i], tag .. ':b:' .. ARGV[i])
end
return ''
