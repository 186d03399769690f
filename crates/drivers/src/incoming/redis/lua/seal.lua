-- Ends appends by a lower count of sacks; those by the new one begin once the group is opened.
--
-- KEYS[1]  the group's tag
-- ARGV[1]  the new count
-- Answers  {count, last position}
local have = redis.call('HMGET', KEYS[1] .. ':m', 'count', 'last')
local count = tonumber(have[1] or '0')
if count < tonumber(ARGV[1]) then
  redis.call('HSET', KEYS[1] .. ':m', 'count', ARGV[1], 'closed', '1')
  count = ARGV[1]
end
return {tostring(count), have[2] or '0'}
