-- Common part of scripts that write or delete, behind the fences: a call that has timed out may still be delivered, by a
-- retransmission of its connection after it was repeated over another. By then the metric may have been written again.
local lease = ARGV[1] .. ':' .. ARGV[2]
local last_token, last = string.match(redis.call('HGET', tag .. ':w', lease) or '', '^(%d+):(%d+)$')
if last_token == ARGV[3] and above(last, ARGV[4]) then
  return 'late'
end
-- A server without memory refuses this, and every write; but deletions free memory.
redis.pcall('HSET', tag .. ':w', lease, ARGV[3] .. ':' .. ARGV[4])
