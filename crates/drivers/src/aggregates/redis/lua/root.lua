-- The record of the store; made where there is none, if that is wanted.
--
-- KEYS     `:r`
-- ARGV     cluster, format, shards and state of a new one; format '' if none is to be made
-- Answers  {cluster, format, shards, state}, or nothing where there is none
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
