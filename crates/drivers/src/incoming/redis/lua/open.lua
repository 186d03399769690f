-- Begins appends by a new count of sacks, above the positions of all old sacks.
--
-- KEYS[1]  the group's tag
-- ARGV     the new count, the highest position in any group
local have = redis.call('HMGET', KEYS[1] .. ':m', 'count', 'closed', 'last')
if have[1] == ARGV[1] and have[2] == '1' then
  local last = math.max(tonumber(have[3] or '0'), tonumber(ARGV[2]))
  redis.call('HSET', KEYS[1] .. ':m', 'closed', '0')
  if last > 0 then
    redis.call('HSET', KEYS[1] .. ':m', 'last', string.format('%.0f', last))
  end
end
return 1
