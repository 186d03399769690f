-- Removes sacks of a count that is no longer used. A server that took over may lack acknowledgements of them: what would wait
-- for ever does not count any more.
--
-- KEYS     the group's `:m`, `:z`, the stream of each sack
-- ARGV     for each sack: count:number
local tag = string.sub(KEYS[1], 1, -3)
local meta = tag .. ':m'
for _, member in ipairs(ARGV) do
  local of_count = 'e' .. string.match(member, '^%d+')
  local have = redis.call('HMGET', meta, 'n' .. member, 'a' .. member, 'total', of_count)
  if have[1] and have[3] then
    local _, entries, measures, bytes = struct.unpack('>dddd', have[1])
    if have[2] then
      local _, of_entries, of_measures, of_bytes = struct.unpack('>dddd', have[2])
      entries, measures, bytes = entries - of_entries, measures - of_measures, bytes - of_bytes
    end
    local all_measures, all_bytes = struct.unpack('>dd', have[3])
    redis.call('HSET', meta, 'total', struct.pack('>dd', all_measures - measures, all_bytes - bytes),
      of_count, string.format('%.0f', tonumber(have[4] or '0') - entries))
  end
  redis.call('UNLINK', tag .. ':s:' .. member)
  redis.call('HDEL', meta, 'n' .. member, 'a' .. member)
  redis.call('ZREM', tag .. ':z', member)
end
return 1
