local session = ARGV[1]
if is_over(session) then return expired end
local answer, free = {}, {}
for first = 2, #ARGV, 1000 do
  local owners = redis.call('HMGET', key('owner'), unpack(ARGV, first, math.min(first + 999, #ARGV)))
  for index, owner in ipairs(owners) do
    local at = first + index - 1
    if owner then
      local whose, token = string.match(owner, '^(%d+):(%d+)$')
      answer[at - 1] = whose == session and token or ''
    else
      free[#free + 1] = at
      answer[at - 1] = ''
    end
  end
end
if #free > 0 then
  local token = take(#free)
  local tokens, owners, sacks = {}, {}, {}
  for _, at in ipairs(free) do
    local sack = ARGV[at]
    -- A sack listed twice counts once.
    if not tokens[sack] then
      tokens[sack] = shown(token)
      token = token + 1
      owners[#owners + 1] = sack
      owners[#owners + 1] = session .. ':' .. tokens[sack]
      sacks[#sacks + 1] = sack
    end
    answer[at - 1] = tokens[sack]
  end
  for first = 1, #owners, 1000 do
    redis.call('HSET', key('owner'), unpack(owners, first, math.min(first + 999, #owners)))
  end
  for first = 1, #sacks, 1000 do
    redis.call('SADD', key('sacks:' .. session), unpack(sacks, first, math.min(first + 999, #sacks)))
  end
end
return answer
