-- The common case of a lone caller, before all that the general one needs is even defined: one ask of one SKU,
-- a new id, and enough units even if nothing that has expired is freed. Anything else falls through to what
-- stands below.
if #ARGV == 5 then
	local call, match, format = redis.call, string.match, string.format
	local sku, units = match(ARGV[2], '^(%Z+)%z(%d+)$')
	local found = sku and call('HMGET', KEYS[1], sku, ARGV[5]) or {}
	if found[1] and not found[2] then
		local supply, available, held, sold, freed, refusals, first, rest =
			match(found[1], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%-?%d+ %d+)$')
		units, available, held, freed = tonumber(units), tonumber(available), tonumber(held), tonumber(freed)
		first = tonumber(first)
		local clock = call('TIME')
		local now, micros = tonumber(clock[1]), tonumber(clock[2])
		local adds = supply and available + held + tonumber(sold) == tonumber(supply)
		if adds and available >= units then
			local s, u = match(ARGV[3], '^(%d+) (%d+) ')
			local second = now + tonumber(s) + math.ceil((micros + tonumber(u)) / 1000000)
			if second <= freed then second = freed + 1 end
			local expiry = format('%d', second)
			local field = sku .. '\0' .. format('%012d', second)
			local was = tonumber(call('HGET', KEYS[1], field) or 0)
			if was == 0 then call('ZADD', KEYS[3], 0, field) end
			if first == 0 or second < first then
				first = second
				call('ZADD', KEYS[4], first, sku)
			end
			call('RPUSH', KEYS[2], ARGV[5])
			call('HSET', KEYS[1], sku, table.concat({ supply, format('%d', available - units), format('%d', held + units), sold,
				format('%d', freed), refusals, format('%d', first), rest }, ' '), field, format('%d', was + units),
				ARGV[5], '1 ' .. expiry .. ' ' .. clock[1] .. format('%06d', micros) .. '\0' .. ARGV[2])
			return { clock[1] .. ' ' .. clock[2], expiry }
		end
	end
end
