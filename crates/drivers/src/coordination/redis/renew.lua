local session, about = ARGV[1], ARGV[2]
if is_over(session) then return expired end
local ttl = tonumber(redis.call('HGET', key('life:' .. session), 'ttl'))
redis.call('HSET', key('life:' .. session), 'about', about)
redis.call('ZADD', key('until'), shown(now + ttl), session)
return session
