-- The record of the store; made where there is none.
--
-- KEYS     `:r`
-- ARGV     cluster, format and shards of a new one
-- Answers  {cluster, format, shards}
local key = KEYS[1]
if redis.call('EXISTS', key) == 0 then
  redis.call('HSET', key, 'cluster', ARGV[1], 'format', ARGV[2], 'shards', ARGV[3])
end
return redis.call('HMGET', key, 'cluster', 'format', 'shards')
