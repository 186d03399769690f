-- Reads the store's record; creates a missing one if requested.
--
-- KEYS     `:r`
-- ARGV     cluster, format, shards and state of a new one; format '' to create none
-- Returns  {cluster, format, shards, state}, or {} if there is none
local key = KEYS[1]
if redis.call('EXISTS', key) == 0 then
  if ARGV[2] == '' then
    return {}
  end
  redis.call('HSET', key, 'cluster', ARGV[1], 'format', ARGV[2], 'shards', ARGV[3], 'state', ARGV[4])
end
local record = redis.call('HMGET', key, 'cluster', 'format', 'shards', 'state')
record[4] = record[4] or 'in_use'
return record
