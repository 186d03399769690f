local session = ARGV[1]
if is_over(session) then return session end
for at = 2, #ARGV do
  if redis.call('SREM', key('sacks:' .. session), ARGV[at]) == 1 then
    redis.call('HDEL', key('owner'), ARGV[at])
  end
end
return session
