-- What all scripts share. Redis runs one script at a time, so each is decided as a whole; but a script that
-- fails is not rolled back. So a script first reads and decides, by tables of its own, and checks the law; only
-- then it writes, and first what does no harm alone.
--
--   stock      hash, of all that decides, so that no part of it can be lost alone:
--                SKU -> levels; SKU NUL second -> units that expire then; NUL h id -> hold; NUL d id -> delivery
--   order      list: fields of holds, joined, each once and about as they came; what a sweep goes by
--   seconds    sorted set, all scores 0: the fields SKU NUL second of stock, in order
--   ends       sorted set: SKU by the first second in which units of it may expire
--   delivered  list: fields of deliveries, as they came
--
-- No key has a time to live: what Redis forgets by itself does not add up.
local stock, order, seconds, ends, delivered = unpack(KEYS)
local call, match, find, format, concat = redis.call, string.match, string.find, string.format, table.concat

-- Redis's own clock, for every decision. Behind the script nobody else decides, so it can't be too old.
local clock = call('TIME')
local now, micros = tonumber(clock[1]), tonumber(clock[2])
local stamp = clock[1] .. format('%06d', micros) -- in microseconds

-- broken stops before anything is written: a part of the keys is gone or was changed by somebody else.
local function broken(what) error('FIFTYBROKEN ' .. what) end

-- chunk is even, so that pairs stay together, and less than Lua can pass on at once.
local chunk = 1000
local function send(command, key, list)
	for i = 1, #list, chunk do call(command, key, unpack(list, i, math.min(i + chunk - 1, #list))) end
end
local function fetch(key, fields)
	if #fields <= chunk then return #fields > 0 and call('HMGET', key, unpack(fields)) or {} end
	local all = {}
	for i = 1, #fields, chunk do
		local part = call('HMGET', key, unpack(fields, i, math.min(i + chunk - 1, #fields)))
		for j = 1, #part do all[i + j - 1] = part[j] end
	end
	return all
end

-- Items are SKU NUL quantity, joined by NUL, in order. All that have the same text are the same order.
local known = {}
local function parse(text)
	local items = known[text]
	if items then return items end
	local sku, quantity = match(text, '^(%Z+)%z(%d+)$') -- most have one
	if sku then
		items = { skus = { sku }, units = { [sku] = tonumber(quantity) } }
	else
		items = { skus = {}, units = {} }
		for s, q in string.gmatch(text, '(%Z+)%z(%d+)') do
			items.skus[#items.skus + 1] = s
			items.units[s] = tonumber(q)
		end
	end
	known[text] = items
	return items
end

-- Levels, as they will be written. loaded[sku] is false for an unknown SKU.
local loaded, touched = {}, {}
local gone = {}  -- fields of units that were freed
local pattern = '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%-?%d+) (%d+)$'

local function levels(value)
	local supply, available, held, sold, freed, refusals, first, folded, soldfolded = match(value, pattern)
	if not supply then broken('levels that are none: ' .. value) end
	first = tonumber(first)
	return {
		supply = tonumber(supply), available = tonumber(available), held = tonumber(held), sold = tonumber(sold),
		freed = tonumber(freed), refusals = tonumber(refusals), first = first, wasfirst = first,
		folded = tonumber(folded), soldfolded = tonumber(soldfolded), moves = {}
	}
end

-- expired reads the seconds of a SKU that are over, the fields and their units together.
local function expired(sku)
	local fields = call('ZRANGEBYLEX', seconds, '[' .. sku .. '\0', '[' .. sku .. '\0' .. format('%012d', now))
	local units, due = fetch(stock, fields), 0
	for i = 1, #fields do due = due + (tonumber(units[i]) or 0) end
	return fields, due
end

local function touch(k)
	if not k.dirty then
		k.dirty = true
		touched[#touched + 1] = k
	end
	return k
end

-- free gives back what has expired. Only from then on it is free, and counted once: a hold with an expiry up to
-- k.freed has no units any more.
local function free(k)
	if k.first == 0 or k.first > now then return end
	local fields, due = expired(k.sku)
	for i = 1, #fields do gone[#gone + 1] = fields[i] end
	if due > 0 then
		k.held = k.held - due
		k.available = k.available + due
		if now > k.freed then k.freed = now end
	end
	local rest = call('ZRANGEBYLEX', seconds, '(' .. k.sku .. '\0' .. format('%012d', now), '(' .. k.sku .. '\1', 'LIMIT', 0, 1)
	k.first = rest[1] and tonumber(string.sub(rest[1], -12)) or 0
	touch(k)
end

-- load reads the levels of SKUs, and frees what has expired of them. It returns the values of more fields, all
-- in one look.
local function load(skus, more)
	local missing = {}
	for i = 1, #skus do
		if loaded[skus[i]] == nil then
			loaded[skus[i]] = false
			missing[#missing + 1] = skus[i]
		end
	end
	local count = #missing
	for i = 1, more and #more or 0 do missing[count + i] = more[i] end
	local values, rest = fetch(stock, missing), {}
	for i = 1, count do
		if values[i] then
			local k = levels(values[i])
			k.sku = missing[i]
			loaded[k.sku] = k
			free(k)
		end
	end
	for i = 1, #missing - count do rest[i] = values[count + i] end
	return rest
end

-- need is the levels of a SKU that a record names, and that must therefore be there.
local function need(sku)
	return loaded[sku] or broken('levels are missing: ' .. sku)
end

-- move adds units to what expires of a SKU in a second, or takes them away.
local function move(k, second, units)
	k.moves[second] = (k.moves[second] or 0) + units
	if units > 0 and (k.first == 0 or second < k.first) then k.first = second end
	touch(k)
end

-- expiry is the second in which a hold expires: after its time, rounded up, and after all that was freed
-- already, should the clock have gone backwards. The SKUs are loaded.
local function expiry(items, ttlseconds, ttlmicros)
	local second = now + ttlseconds + math.ceil((micros + ttlmicros) / 1000000)
	for i = 1, #items.skus do
		local freed = loaded[items.skus[i]].freed
		if second <= freed then second = freed + 1 end
	end
	return second
end

-- Records: state, expiry and time, then items, sold items if they are others, what was short, and the log.
local texts = {}   -- by field: the record, false for none
local fresh = {}   -- fields that are new, in order
local changed = {} -- records that are not

local function encode(r)
	local text = concat({ r.state, ' ', format('%d', r.expires), ' ', r.reserved, '\0', r.items })
	if r.sold == '' and r.short == '' and r.log == '' then return text end
	return concat({ text, r.sold, r.short, r.log }, '\0\0')
end

local function decode(id, text)
	local state, expires, reserved, rest = match(text, '^(%d) (%d+) (%d+)%z(.+)$')
	if not state then broken('a hold that is none: ' .. id) end
	local r = { id = id, state = state, expires = tonumber(expires), reserved = reserved, sold = '', short = '', log = '' }
	local at, to = find(rest, '\0\0', 1, true)
	if not at then
		r.items = rest
		return r
	end
	r.items = string.sub(rest, 1, at - 1)
	local from = to + 1
	at, to = find(rest, '\0\0', from, true)
	r.sold = string.sub(rest, from, at - 1)
	from = to + 1
	at, to = find(rest, '\0\0', from, true)
	r.short = string.sub(rest, from, at - 1)
	r.log = string.sub(rest, to + 1)
	return r
end

-- note adds a line to a record's log. Extensions in a row share one.
local function note(r, what)
	local before, last, times = match(r.log, '^(.-)(%a+)%z%d+%z(%d+)$')
	if last == what then
		r.log = concat({ before .. what, stamp, format('%d', times + 1) }, '\0')
	else
		r.log = (r.log == '' and '' or r.log .. '\0') .. concat({ what, stamp, '1' }, '\0')
	end
	if not r.changed then
		r.changed = true
		changed[#changed + 1] = r
	end
end

-- commit checks the law and writes. Nothing was written before. What decides is in one HSET; before it come
-- entries of indexes, which do no harm alone: a second without units, and a hold that is none, are passed over.
-- more are fields of texts that are no holds.
local function commit(more)
	local fields, changes = {}, {}
	for i = 1, #touched do
		for second, units in pairs(touched[i].moves) do
			if units ~= 0 then
				fields[#fields + 1] = touched[i].sku .. '\0' .. format('%012d', second)
				changes[#fields] = units
			end
		end
	end
	local units = fetch(stock, fields)
	local put, index, firsts, lasts = {}, {}, {}, {}
	local function set(field, value)
		put[#put + 1] = field
		put[#put + 1] = value
	end
	for i = 1, #fields do
		local field = fields[i]
		local was = tonumber(units[i]) or 0
		local is = was + changes[i]
		if is < 0 then broken('units expire that nobody holds: ' .. field) end
		if is == 0 then gone[#gone + 1] = field else set(field, format('%d', is)) end
		if was == 0 then
			index[#index + 1] = 0
			index[#index + 1] = field
		end
	end
	for i = 1, #touched do
		local k = touched[i]
		if k.available < 0 or k.held < 0 or k.sold < 0 or k.refusals < 0 or k.available + k.held + k.sold ~= k.supply then
			broken('levels that do not add up: ' .. k.sku)
		end
		set(k.sku, format('%d %d %d %d %d %d %d %d %d', k.supply, k.available, k.held, k.sold, k.freed,
			k.refusals, k.first, k.folded, k.soldfolded))
		if k.first == 0 and k.wasfirst > 0 then
			lasts[#lasts + 1] = k.sku
		elseif k.first ~= k.wasfirst then
			firsts[#firsts + 1] = k.first
			firsts[#firsts + 1] = k.sku
		end
	end
	for i = 1, #fresh do set(fresh[i], texts[fresh[i]]) end
	for i = 1, more and #more or 0 do set(more[i], texts[more[i]]) end
	for i = 1, #changed do set(changed[i].id, encode(changed[i])) end
	send('ZADD', seconds, index)
	send('ZADD', ends, firsts)
	if #fresh > 0 then call('RPUSH', order, concat(fresh)) end
	send('HSET', stock, put)
	send('HDEL', stock, gone)
	send('ZREM', seconds, gone)
	send('ZREM', ends, lasts)
end
