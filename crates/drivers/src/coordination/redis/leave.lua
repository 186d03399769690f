if not is_over(ARGV[1]) then finish(ARGV[1]) end
return ARGV[1]
