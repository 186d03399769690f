-- Makes positions continue above a given one.
--
-- KEYS     the group's `:m`
-- ARGV[1]  the position
local last = tonumber(redis.call('HGET', KEYS[1], 'last') or '0')
if last < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'last', ARGV[1])
end
return 1
