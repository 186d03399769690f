-- Takes a damaged value out of the way, if it is still there.
--
-- KEYS[1]  the shard's tag
-- ARGV     metric, name of the block or '' for the head, the damaged bytes
local metric, name, bytes = ARGV[1], ARGV[2], ARGV[3]
local key, field = KEYS[1] .. ':h', metric
if name ~= '' then
  key, field = KEYS[1] .. ':b:' .. metric, name
end
if redis.call('HGET', key, field) == bytes then
  redis.call('HSET', KEYS[1] .. ':damaged', metric .. name, bytes)
  redis.call('HDEL', key, field)
  if name ~= '' then
    redis.call('ZREM', KEYS[1] .. ':i:' .. metric, name)
  end
end
return 1
