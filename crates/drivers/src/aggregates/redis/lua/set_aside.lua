-- Copies a damaged value, if it has not changed. The original stays, so that every reader sees the damage.
--
-- KEYS     the value's key, and the copy's
-- ARGV     the value's field, the copy's, the damaged bytes
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[3] then
  redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
end
return 1
