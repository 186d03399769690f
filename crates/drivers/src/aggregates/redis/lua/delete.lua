-- Removes metrics' heads and blocks from a shard.
--
-- KEYS     the shard's `:f`, `:c`, `:w`, `:h`, and `:i`, `:b` of each metric
-- ARGV     count of sacks, number of the sack, token, number of the write; then the id of each metric
-- Returns  '', the higher token that fences this one off, or 'late' if a later write with this token was applied
for i = 5, #ARGV do
  redis.call('HDEL', tag .. ':h', ARGV[i])
  redis.call('UNLINK', tag .. ':i:' .. ARGV[i], tag .. ':b:' .. ARGV[i])
end
return ''
