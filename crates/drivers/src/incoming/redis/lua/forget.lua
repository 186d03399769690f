-- Removes sacks of a count that is no longer used.
--
-- KEYS     the group's `:m`, `:z`, the stream of each sack
-- ARGV     for each sack: count:number
local tag = string.sub(KEYS[1], 1, -3)
for _, member in ipairs(ARGV) do
  redis.call('UNLINK', tag .. ':s:' .. member)
  redis.call('HDEL', tag .. ':m', 'n' .. member, 'a' .. member)
  redis.call('ZREM', tag .. ':z', member)
end
return 1
