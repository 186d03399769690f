-- Raises a fence in a shard.
--
-- KEYS[1]  the shard's tag
-- ARGV     count of sacks, number of the sack, token
-- Answers  '', or the token that is held against it
redis.call('SADD', KEYS[1] .. ':c', ARGV[1])
redis.call('HSET', KEYS[1] .. ':f', ARGV[1] .. ':' .. ARGV[2], ARGV[3])
return ''
