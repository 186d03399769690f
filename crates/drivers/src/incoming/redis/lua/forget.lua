-- Removes sacks of a count that is not used any more.
--
-- KEYS[1]  the group's tag
-- ARGV     for each sack: count:number
for _, member in ipairs(ARGV) do
  redis.call('UNLINK', KEYS[1] .. ':s:' .. member)
  redis.call('HDEL', KEYS[1] .. ':m', 'n' .. member, 'a' .. member)
  redis.call('ZREM', KEYS[1] .. ':z', member)
end
return 1
