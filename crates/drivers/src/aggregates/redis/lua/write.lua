-- Writes heads and blocks of metrics in a shard.
--
-- KEYS     the shard's `:f`, `:c`, `:w`, `:h`, and `:i`, `:b` of each metric whose blocks are written
-- ARGV     count of sacks, number of the sack, token, number of the write; then for each metric: id, head, how many blocks,
--          name and bytes of each, how many expired blocks, name of each
-- Returns  '', the higher token that fences this one off, or 'late' if a later write with this token was applied
local at_once_max = 1000

local heads = {tag .. ':h'}
local i = 5
while i <= #ARGV do
  local metric = ARGV[i]
  heads[#heads + 1] = metric
  heads[#heads + 1] = ARGV[i + 1]
  local blocks = tonumber(ARGV[i + 2])
  i = i + 3
  for _ = 1, blocks do
    redis.call('HSET', tag .. ':b:' .. metric, ARGV[i], ARGV[i + 1])
    redis.call('ZADD', tag .. ':i:' .. metric, 0, ARGV[i])
    i = i + 2
  end
  local expired = tonumber(ARGV[i])
  i = i + 1
  for _ = 1, expired do
    redis.call('ZREM', tag .. ':i:' .. metric, ARGV[i])
    redis.call('HDEL', tag .. ':b:' .. metric, ARGV[i])
    i = i + 1
  end
  if #heads > 2 * at_once_max then
    redis.call('HSET', unpack(heads))
    heads = {tag .. ':h'}
  end
end
if #heads > 1 then
  redis.call('HSET', unpack(heads))
end
return ''
