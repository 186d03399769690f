local answer = {}
local owners = redis.call('HGETALL', key('owner'))
for at = 1, #owners, 2 do
  local session, token = string.match(owners[at + 1], '^(%d+):(%d+)$')
  answer[#answer + 1] = owners[at]
  answer[#answer + 1] = session
  answer[#answer + 1] = token
end
return answer
