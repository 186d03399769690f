local name, about, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])
local before = redis.call('HGET', key('name'), name)
if before then finish(before) end
local session = shown(take(1))
redis.call('HSET', key('name'), name, session)
redis.call('HSET', key('life:' .. session), 'name', name, 'about', about, 'ttl', shown(ttl))
redis.call('ZADD', key('until'), shown(now + ttl), session)
return session
