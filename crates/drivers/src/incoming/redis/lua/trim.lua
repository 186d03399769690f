-- Removes entries that are durable in the aggregates.
--
-- KEYS     the group's `:m`, the stream of each sack
-- ARGV     for each sack: count:number, position
local tag = string.sub(KEYS[1], 1, -3)
for i = 1, #ARGV, 2 do
  local member, to = ARGV[i], tonumber(ARGV[i + 1])
  local acknowledged = redis.call('HGET', tag .. ':m', 'a' .. member)
  if acknowledged then
    to = math.min(to, (struct.unpack('>d', acknowledged)))
    redis.call('XTRIM', tag .. ':s:' .. member, 'MINID', string.format('%.0f-0', to + 1))
  end
end
return 1
