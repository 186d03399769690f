local answer = {}
for _, session in ipairs(redis.call('ZRANGE', key('until'), 0, -1)) do
  local life = redis.call('HMGET', key('life:' .. session), 'name', 'about')
  answer[#answer + 1] = session
  answer[#answer + 1] = life[1]
  answer[#answer + 1] = life[2]
end
return answer
