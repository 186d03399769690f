-- KEYS[1] is the hash tag that all keys begin with:
--   until     sorted set: session -> the microsecond at which it expires
--   name      hash: name -> session
--   life:S    hash of session S: name, about, ttl
--   owner     hash: sack -> session:token
--   sacks:S   set of the sacks that session S owns
--   last      the highest token or session so far
local tag = KEYS[1]
local function key(name) return tag .. ':' .. name end
local function shown(number) return string.format('%.0f', number) end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

local function finish(session)
  local sacks = redis.call('SMEMBERS', key('sacks:' .. session))
  for first = 1, #sacks, 1000 do
    redis.call('HDEL', key('owner'), unpack(sacks, first, math.min(first + 999, #sacks)))
  end
  local name = redis.call('HGET', key('life:' .. session), 'name')
  if name and redis.call('HGET', key('name'), name) == session then
    redis.call('HDEL', key('name'), name)
  end
  redis.call('DEL', key('sacks:' .. session), key('life:' .. session))
  redis.call('ZREM', key('until'), session)
end

for _, session in ipairs(redis.call('ZRANGEBYSCORE', key('until'), '-inf', shown(now))) do
  finish(session)
end

-- A clock that was ahead, and was set right, leaves ends far ahead: such a session would outlive its process. Live processes
-- renew theirs, and small steps of the clock are no reason: so an end may be twice the session's length away.
while true do
  local last = redis.call('ZREVRANGE', key('until'), 0, 0)[1]
  if not last then break end
  local ttl = tonumber(redis.call('HGET', key('life:' .. last), 'ttl') or '0')
  if tonumber(redis.call('ZSCORE', key('until'), last)) <= now + 2 * ttl then break end
  finish(last)
end

-- Reserves `count` numbers above all earlier ones; returns the first.
local function take(count)
  local last = tonumber(redis.call('GET', key('last')) or '0')
  local first = math.max(last, now) + 1
  redis.call('SET', key('last'), shown(first + count - 1))
  return first
end

local function is_over(session) return not redis.call('ZSCORE', key('until'), session) end
local expired = { ok = 'EXPIRED' }
