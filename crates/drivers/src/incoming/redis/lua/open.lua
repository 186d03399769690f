-- Opens a group for appends by a new sack count, above the positions of all old sacks.
--
-- KEYS     the group's `:m`
-- ARGV     the new count, the highest position in any group
local tag = string.sub(KEYS[1], 1, -3)
local have = redis.call('HMGET', tag .. ':m', 'count', 'closed', 'last')
if have[1] == ARGV[1] and have[2] == '1' then
  local last = math.max(tonumber(have[3] or '0'), tonumber(ARGV[2]))
  redis.call('HSET', tag .. ':m', 'closed', '0')
  if last > 0 then
    redis.call('HSET', tag .. ':m', 'last', string.format('%.0f', last))
  end
end
return 1
