-- Reads entries of a sack, oldest first.
--
-- KEYS     the group's `:m`, the sack's stream
-- ARGV     sack as count:number, the position after which to read, about how many bytes
-- Returns  {1 if more wait behind them, otherwise 0, then for each entry: id, payload}
local tag = string.sub(KEYS[1], 1, -3)
local read_at_once_max = 512

local member, after, bytes_max = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local have = redis.call('HMGET', tag .. ':m', 'n' .. member, 'a' .. member)
if not have[1] then
  return {0}
end
local newest, entries, _, bytes = struct.unpack('>dddd', have[1])
if have[2] then
  local acknowledged, of_entries, _, of_bytes = struct.unpack('>dddd', have[2])
  after = math.max(after, acknowledged)
  entries, bytes = entries - of_entries, bytes - of_bytes
end
if after >= newest then
  return {0}
end
-- Estimate the number of entries from their mean size.
local mean_bytes = bytes / math.max(entries, 1)
local answer = {0}
local read_bytes = 0
while after < newest do
  if #answer > 1 and read_bytes >= bytes_max then
    answer[1] = 1
    break
  end
  local wanted = math.ceil((bytes_max - read_bytes) / math.max(mean_bytes, 1))
  wanted = math.max(1, math.min(wanted, read_at_once_max))
  local found = redis.call('XRANGE', tag .. ':s:' .. member,
    string.format('%.0f-0', after + 1), '+', 'COUNT', wanted)
  if #found == 0 then
    break
  end
  for _, entry in ipairs(found) do
    if #answer > 1 and read_bytes >= bytes_max then
      break
    end
    local payload = entry[2][4]
    answer[#answer + 1] = entry[1]
    answer[#answer + 1] = payload
    read_bytes = read_bytes + #payload
    after = tonumber(string.match(entry[1], '^%d+'))
  end
end
return answer
