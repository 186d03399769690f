-- Rejects further appends by a lower sack count; those by the new one are accepted once the group is opened.
--
-- KEYS     the group's `:m`
-- ARGV[1]  the new count
-- Returns  {count, last position}
local tag = string.sub(KEYS[1], 1, -3)
local have = redis.call('HMGET', tag .. ':m', 'count', 'last')
local count = tonumber(have[1] or '0')
if count < tonumber(ARGV[1]) then
  redis.call('HSET', tag .. ':m', 'count', ARGV[1], 'closed', '1')
  count = ARGV[1]
end
return {tostring(count), have[2] or '0'}
