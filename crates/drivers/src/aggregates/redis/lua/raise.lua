-- Raises a fence in a shard.
--
-- KEYS     the shard's `:f`, `:c`
-- ARGV     count of sacks, number of the sack, token
-- Returns  '', or the higher token that fences this one off
redis.call('SADD', tag .. ':c', ARGV[1])
redis.call('HSET', tag .. ':f', ARGV[1] .. ':' .. ARGV[2], ARGV[3])
return ''
