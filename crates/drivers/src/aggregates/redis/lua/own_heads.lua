-- Reads heads of a shard for the holder of a lease. Its writes with lower numbers that are still under way are refused from
-- then on.
--
-- KEYS     the shard's `:f`, `:c`, `:w`, `:h`
-- ARGV     count of sacks, number of the sack, token, number of the next write; then the id of each metric
-- Returns  the heads, or the higher token that fences this one off
local lease = ARGV[1] .. ':' .. ARGV[2]
local last_token, last = string.match(redis.call('HGET', tag .. ':w', lease) or '', '^(%d+):(%d+)$')
if last_token ~= ARGV[3] or not above(last, ARGV[4]) then
  redis.call('HSET', tag .. ':w', lease, ARGV[3] .. ':' .. ARGV[4])
end
return redis.call('HMGET', tag .. ':h', unpack(ARGV, 5))
