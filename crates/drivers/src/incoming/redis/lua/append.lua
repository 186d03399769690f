-- Appends the parts of one or more batches for a group's sacks; all of them, or none.
--
-- KEYS     the group's `:m`, `:z`, the stream of each sack
-- ARGV     count of sacks, limit of waiting bytes or '', position above which to go on, then for each sack: number, measures,
--          payload; last the name of the server's history, and the time in microseconds at which the caller gives up, or ''
-- Returns  {'taken', position}; {'closed', count}: the group accepts appends by that count, now or soon;
--          {'full', bytes}; the error LATE
local tag = string.sub(KEYS[1], 1, -3)
local overhead_bytes = 64
-- A server that took over may lack its predecessor's last entries, or all, and its clock may be behind: its positions begin
-- this far ahead of its clock, and of its last position.
local ahead_of_clock_us, ahead_of_last_us = 3600e6, 600e6

local count, limit, passed, run = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), 'r:' .. ARGV[#ARGV - 1]
local meta = tag .. ':m'
local sacks = (#ARGV - 5) / 3

-- A call that has timed out may still be delivered, by a retransmission of its connection, or by a server that hung. What its
-- client was told is refused must not come behind newer measures, nor remove them.
local time, given_up_at = redis.call('TIME'), tonumber(ARGV[#ARGV])
local now = tonumber(time[1]) * 1e6 + tonumber(time[2])
if given_up_at and now > given_up_at then
  return redis.error_reply('LATE the caller has given up')
end

local ask = {meta, 'count', 'closed', 'last', run, 'total', 'e' .. count}
for i = 1, sacks do
  ask[6 + 1 + i] = 'n' .. count .. ':' .. ARGV[3 * i + 1]
end
local have = redis.call('HMGET', unpack(ask))
if have[1] ~= count or have[2] == '1' then
  return {'closed', have[1] or '0'}
end

local measures, bytes = 0, 0
if have[5] then
  measures, bytes = struct.unpack('>dd', have[5])
end
for i = 1, sacks do
  measures = measures + tonumber(ARGV[3 * i + 2])
  bytes = bytes + #ARGV[3 * i + 3] + overhead_bytes
end
if limit and bytes > limit then
  return {'full', string.format('%.0f', bytes)}
end

-- A server that lost its data has no position, or an old one; the log may have begun far ahead of its clock.
local last = math.max(tonumber(have[3] or '0'), passed)
local position
if have[4] then
  position = math.max(last + 1, now)
else
  position = math.max(last + ahead_of_last_us, now + ahead_of_clock_us)
end
local written = string.format('%.0f', position)

local set = {meta, 'last', written, run, '', 'total', struct.pack('>dd', measures, bytes),
  'e' .. count, string.format('%.0f', tonumber(have[6] or '0') + sacks)}
local arrived = {tag .. ':z'}
for i = 1, sacks do
  local member = count .. ':' .. ARGV[3 * i + 1]
  local payload = ARGV[3 * i + 3]
  local entries, of_measures, of_bytes = 0, 0, 0
  if have[6 + i] then
    local _
    _, entries, of_measures, of_bytes = struct.unpack('>dddd', have[6 + i])
  end
  entries = entries + 1
  of_measures = of_measures + tonumber(ARGV[3 * i + 2])
  of_bytes = of_bytes + #payload + overhead_bytes
  redis.call('XADD', tag .. ':s:' .. member, written .. '-0',
    'c', struct.pack('>ddd', entries, of_measures, of_bytes), 'p', payload)
  set[#set + 1] = 'n' .. member
  set[#set + 1] = struct.pack('>dddd', position, entries, of_measures, of_bytes)
  arrived[2 * i] = written
  arrived[2 * i + 1] = member
end
redis.call('HSET', unpack(set))
redis.call('ZADD', unpack(arrived))
return {'taken', written}
