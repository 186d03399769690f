-- Copies a damaged value, if it is still there. It stays where it is, so that each reader learns of it.
--
-- KEYS     where it lies, and where to its copy goes
-- ARGV     its field, the field for the copy, the damaged bytes
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[3] then
  redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
end
return 1
