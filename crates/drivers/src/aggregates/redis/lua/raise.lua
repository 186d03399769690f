-- Raises a fence in a shard.
--
-- KEYS     the shard's `:f`, `:c`
-- ARGV     count of sacks, number of the sack, token
-- Answers  '', or the token that is held against it
redis.call('SADD', tag .. ':c', ARGV[1])
redis.call('HSET', tag .. ':f', ARGV[1] .. ':' .. ARGV[2], ARGV[3])
return ''
