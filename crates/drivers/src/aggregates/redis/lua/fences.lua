-- Common part of scripts that write: checks a lease against the fences. A fence covers the metrics of its sack; two sacks
-- share metrics if their numbers agree modulo the counts' greatest common divisor.
local tag = string.sub(KEYS[1], 1, -3)
local looked_up_max = 1000

-- Tokens are decimal: too large for Lua's numbers.
local function above(one, other)
  return #one > #other or (#one == #other and one > other)
end

local function greatest_common_divisor(a, b)
  while b ~= 0 do
    a, b = b, a % b
  end
  return a
end

-- The highest token above `token` among the fences of sacks that share metrics with this one.
local function held(tag, count, sack, token)
  local names = {}
  local candidates = 0
  local counts = redis.call('SMEMBERS', tag .. ':c')
  for _, other in ipairs(counts) do
    candidates = candidates + tonumber(other) / greatest_common_divisor(count, tonumber(other))
  end
  local highest = nil
  local function meet(raised)
    if raised and above(raised, token) and (not highest or above(raised, highest)) then
      highest = raised
    end
  end
  if candidates > looked_up_max then
    local all = redis.call('HGETALL', tag .. ':f')
    for i = 1, #all, 2 do
      local other, id = string.match(all[i], '^(%d+):(%d+)$')
      local common = greatest_common_divisor(count, tonumber(other))
      if tonumber(id) % common == sack % common then
        meet(all[i + 1])
      end
    end
    return highest
  end
  for _, other in ipairs(counts) do
    local common = greatest_common_divisor(count, tonumber(other))
    for id = sack % common, tonumber(other) - 1, common do
      names[#names + 1] = other .. ':' .. id
    end
  end
  if #names > 0 then
    for _, raised in ipairs(redis.call('HMGET', tag .. ':f', unpack(names))) do
      meet(raised)
    end
  end
  return highest
end

local refused = held(tag, tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3])
if refused then
  return refused
end
