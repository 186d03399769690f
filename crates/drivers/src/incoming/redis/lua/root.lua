-- Reads or changes the record of the sack count; creates a missing one. One that has nothing but an identity is missing, too:
-- the server has lost its data before that was added.
--
-- KEYS     `:r`
-- ARGV     cluster, format, groups and count of a new one; the operation:
--            'read'
--            'double', count: begins a split, if that is still the count and no split is going on
--            'adopt', a count that a group has: resumes a split that the record has lost
--            'opened', count: all groups accept appends by it
--            'settled', count: nothing waits in the old sacks
-- Returns  {cluster, format, groups, count, draining, opened}
local key = KEYS[1]
if redis.call('HEXISTS', key, 'cluster') == 0 then
  redis.call('HSET', key, 'cluster', ARGV[1], 'format', ARGV[2], 'groups', ARGV[3], 'count', ARGV[4],
    'draining', '0', 'opened', '0')
end
local have = redis.call('HMGET', key, 'count', 'draining', 'opened')
local what, count = ARGV[5], ARGV[6]
if what == 'double' and have[1] == count and have[2] == '0' and have[3] == '1' then
  redis.call('HSET', key, 'count', string.format('%.0f', 2 * tonumber(count)), 'draining', '1', 'opened', '0')
elseif what == 'adopt' and tonumber(have[1]) < tonumber(count) then
  redis.call('HSET', key, 'count', count, 'draining', '1', 'opened', '0')
elseif what == 'opened' and have[1] == count then
  redis.call('HSET', key, 'opened', '1')
elseif what == 'settled' and have[1] == count and have[3] == '1' then
  redis.call('HSET', key, 'draining', '0')
end
return redis.call('HMGET', key, 'cluster', 'format', 'groups', 'count', 'draining', 'opened')
