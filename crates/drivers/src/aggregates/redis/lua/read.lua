-- Reads the blocks of ranges, or only their names, oldest first. A block's name is its granularity, its last and its first bucket,
-- each in eight bytes that sort like the numbers; so the names sort by time.
--
-- KEYS     for each range: `:i`, `:b` of its metric
-- ARGV     'blocks' or 'names', about how many bytes; then for each range: granularity, from, to, and the name after which
--          to continue, or ''
-- Returns  for each range: {1 if complete, otherwise 0, then the names, each followed by its bytes if requested}
local names_at_once = 64
local top = string.rep('\255', 8)

local with_bytes, bytes_max = ARGV[1] == 'blocks', tonumber(ARGV[2])

-- Compared as four-byte numbers: string comparison depends on the server's locale.
local function at_most(one, other)
  local a, b = struct.unpack('>I4I4', one)
  local c, d = struct.unpack('>I4I4', other)
  return a < c or (a == c and b <= d)
end

local answer = {}
local read_bytes = 0
for i = 1, #KEYS, 2 do
  local granularity, from, to, after = ARGV[2 * i + 1], ARGV[2 * i + 2], ARGV[2 * i + 3], ARGV[2 * i + 4]
  local low = after == '' and '[' .. granularity .. from or '(' .. after
  local found = {1}
  local wanted = true
  while wanted do
    if read_bytes > bytes_max then
      found[1] = 0
      break
    end
    local names = redis.call('ZRANGEBYLEX', KEYS[i], low, '[' .. granularity .. top .. top,
      'LIMIT', 0, names_at_once)
    wanted = #names == names_at_once
    local selected = {}
    for _, name in ipairs(names) do
      if not at_most(string.sub(name, 17, 24), to) then
        wanted = false
        break
      end
      selected[#selected + 1] = name
      low = '(' .. name
    end
    local bytes = with_bytes and #selected > 0 and redis.call('HMGET', KEYS[i + 1], unpack(selected))
    for j, name in ipairs(selected) do
      found[#found + 1] = name
      if with_bytes then
        found[#found + 1] = bytes[j] or ''
        read_bytes = read_bytes + (bytes[j] and #bytes[j] or 0)
      end
    end
  end
  answer[#answer + 1] = found
end
return answer
