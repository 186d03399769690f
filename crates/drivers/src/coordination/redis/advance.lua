local past = tonumber(ARGV[1])
if past > tonumber(redis.call('GET', key('last')) or '0') then
  redis.call('SET', key('last'), shown(past))
end
return ARGV[1]
