-- Writes heads and blocks of metrics in a shard.
--
-- KEYS[1]  the shard's tag
-- ARGV     count of sacks, number of the sack, token; then for each metric: id, head, how many blocks, name and bytes of
--          each, how many expired blocks, name of each
-- Answers  '', or the token that is held against it
local at_once_max = 1000

local heads = {KEYS[1] .. ':h'}
local i = 4
while i <= #ARGV do
  local metric = ARGV[i]
  heads[#heads + 1] = metric
  heads[#heads + 1] = ARGV[i + 1]
  local blocks = tonumber(ARGV[i + 2])
  i = i + 3
  for _ = 1, blocks do
    redis.call('HSET', KEYS[1] .. ':b:' .. metric, ARGV[i], ARGV[i + 1])
    redis.call('ZADD', KEYS[1] .. ':i:' .. metric, 0, ARGV[i])
    i = i + 2
  end
  local expired = tonumber(ARGV[i])
  i = i + 1
  for _ = 1, expired do
    redis.call('ZREM', KEYS[1] .. ':i:' .. metric, ARGV[i])
    redis.call('HDEL', KEYS[1] .. ':b:' .. metric, ARGV[i])
    i = i + 1
  end
  if #heads > 2 * at_once_max then
    redis.call('HSET', unpack(heads))
    heads = {KEYS[1] .. ':h'}
  end
end
if #heads > 1 then
  redis.call('HSET', unpack(heads))
end
return ''
