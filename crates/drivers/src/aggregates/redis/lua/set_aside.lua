-- Takes a damaged value out of the way, if it is still there.
--
-- KEYS     where it lies, where to it goes, and the index that names it if it is a block
-- ARGV     its field, the field for it where it goes, the damaged bytes
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[3] then
  redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
  redis.call('HDEL', KEYS[1], ARGV[1])
  if KEYS[3] then
    redis.call('ZREM', KEYS[3], ARGV[1])
  end
end
return 1
