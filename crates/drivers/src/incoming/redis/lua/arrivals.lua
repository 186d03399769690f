-- Lists the sacks that have received entries since a position and have entries waiting.
--
-- KEYS     the group's `:m`, `:z`
-- ARGV[1]  the highest position listed before
-- Returns  {highest position, then count:number of each sack}
local tag = string.sub(KEYS[1], 1, -3)
local at_once_max = 1000

local found = redis.call('ZRANGEBYSCORE', tag .. ':z', '(' .. ARGV[1], '+inf', 'WITHSCORES')
if #found == 0 then
  return {ARGV[1]}
end
local answer = {string.format('%.0f', tonumber(found[#found]))}
for first = 1, #found, 2 * at_once_max do
  local ask = {tag .. ':m'}
  for i = first, math.min(first + 2 * at_once_max, #found + 1) - 1, 2 do
    ask[#ask + 1] = 'a' .. found[i]
  end
  local acknowledged = redis.call('HMGET', unpack(ask))
  for i, packed in ipairs(acknowledged) do
    local index = first + 2 * (i - 1)
    if not packed or struct.unpack('>d', packed) < tonumber(found[index + 1]) then
      answer[#answer + 1] = found[index]
    end
  end
end
return answer
