-- Records up to where sacks' entries are in the aggregates; never goes back.
--
-- KEYS     the group's `:m`, the stream of each sack
-- ARGV     for each sack: count:number, position
local tag = string.sub(KEYS[1], 1, -3)
local meta = tag .. ':m'
for i = 1, #ARGV, 2 do
  local member, to = ARGV[i], tonumber(ARGV[i + 1])
  local have = redis.call('HMGET', meta, 'n' .. member, 'a' .. member)
  local newest = have[1] and struct.unpack('>d', have[1]) or 0
  local before, entries, measures, bytes = 0, 0, 0, 0
  if have[2] then
    before, entries, measures, bytes = struct.unpack('>dddd', have[2])
  end
  to = math.min(to, newest)
  if to > before then
    local stream = tag .. ':s:' .. member
    local last = redis.call('XREVRANGE', stream, string.format('%.0f', to), string.format('%.0f', before + 1), 'COUNT', 1)
    local to_entries, to_measures, to_bytes = entries, measures, bytes
    if last[1] then
      to_entries, to_measures, to_bytes = struct.unpack('>ddd', last[1][2][2])
    end
    local waiting = redis.call('HMGET', meta, 'total', 'e' .. string.match(member, '^%d+'))
    local all_measures, all_bytes = 0, 0
    if waiting[1] then
      all_measures, all_bytes = struct.unpack('>dd', waiting[1])
    end
    redis.call('HSET', meta,
      'a' .. member, struct.pack('>dddd', to, to_entries, to_measures, to_bytes),
      'total', struct.pack('>dd', all_measures - (to_measures - measures), all_bytes - (to_bytes - bytes)),
      'e' .. string.match(member, '^%d+'),
      string.format('%.0f', tonumber(waiting[2] or '0') - (to_entries - entries)))
  end
end
return 1
