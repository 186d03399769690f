-- Removes entries that are in the aggregates and never needed again.
--
-- KEYS[1]  the group's tag
-- ARGV     for each sack: count:number, position
for i = 1, #ARGV, 2 do
  local member, to = ARGV[i], tonumber(ARGV[i + 1])
  local acknowledged = redis.call('HGET', KEYS[1] .. ':m', 'a' .. member)
  if acknowledged then
    to = math.min(to, (struct.unpack('>d', acknowledged)))
    redis.call('XTRIM', KEYS[1] .. ':s:' .. member, 'MINID', string.format('%.0f-0', to + 1))
  end
end
return 1
