-- Sweep frees what has expired of up to so many SKUs, and removes records that were settled, refused or
-- delivered longer than keep ago: ARGV is how many at most, and keep in microseconds. It returns how many it
-- removed, whether there is more to free, how many entries of order it looked at, of how many, and whether there
-- may be more that are old.
local limit, before = tonumber(ARGV[1]), tonumber(stamp) - tonumber(ARGV[2])
local due = call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, chunk)
load(due)

-- settled is when it was: at the last line of its log.
local function settled(r) return tonumber(match(r.log, '(%d+)%z%d+$') or r.reserved) end

-- old says that nothing of a hold is in the levels, or that it is folded into them, and nobody asks for it.
local function old(r)
	if r.state ~= '1' then return settled(r) <= before end
	if r.expires * 1000000 > before then return false end
	for _, sku in ipairs(parse(r.items).skus) do
		if need(sku).freed < r.expires then return false end
	end
	return true
end

-- The oldest entries of the list, until there are enough ids.
local length, entries, ids, lasts = call('LLEN', order), 0, {}, {}
while limit > 0 and #ids < chunk do
	local entry = call('LINDEX', order, entries)
	if not entry then break end
	entries = entries + 1
	for id in string.gmatch(entry, '%z%Z+') do ids[#ids + 1] = id end
	lasts[entries] = #ids
end
local found = fetch(stock, ids)
local skus, looks, removed, later, seen, young = {}, {}, {}, {}, {}, false
for i = 1, #ids do
	looks[i] = false
	if found[i] and not seen[ids[i]] then
		seen[ids[i]] = true
		local r = decode(ids[i], found[i])
		if tonumber(r.reserved) > before then -- so are all behind it
			looks[i] = nil
			young = true
			break
		end
		looks[i] = r
		for _, sku in ipairs(parse(r.items).skus) do skus[#skus + 1] = sku end
	end
end
load(skus)
local looked = 0
for i = 1, #looks do
	if #removed == limit then break end
	local r = looks[i]
	looked = i
	if r and old(r) then
		removed[#removed + 1] = r.id
		if r.state == '2' then
			local sold = parse(r.sold == '' and r.items or r.sold)
			for _, sku in ipairs(sold.skus) do
				local k = touch(need(sku))
				k.soldfolded = k.soldfolded + sold.units[sku]
			end
		elseif r.state == '4' then
			local k = touch(need(match(r.short, '^%Z+')))
			k.refusals = k.refusals - 1
		end
	elseif r then
		later[#later + 1] = r.id -- it gets its turn again at the end of the list
	end
end

local paid = {}
if #removed < limit then
	local names = call('LRANGE', delivered, 0, math.min(chunk, limit - #removed) - 1)
	local bills = fetch(stock, names)
	for i = 1, #names do
		if bills[i] and not seen[names[i]] then
			seen[names[i]] = true
			local away, at, text = match(bills[i], '^(%d) (%d+)%z(.+)$')
			if tonumber(at) > before then break end
			local items = parse(text)
			load(items.skus)
			for _, sku in ipairs(items.skus) do
				local k = touch(need(sku))
				k.folded = k.folded + (away == '1' and -items.units[sku] or items.units[sku])
			end
		end
		paid[i] = names[i]
	end
end
-- Entries that were looked at go; the rest of one that was looked at in part comes back to the front.
local used, rest = 0, {}
while used < entries and (used == 0 and 0 or lasts[used]) < looked do used = used + 1 end
for i = looked + 1, used > 0 and lasts[used] or 0 do rest[#rest + 1] = ids[i] end
commit()
send('HDEL', stock, removed)
send('HDEL', stock, paid)
if #rest > 0 then call('LSET', order, used - 1, concat(rest)) end
if #later > 0 then call('RPUSH', order, concat(later)) end
local finished = #rest > 0 and used - 1 or used
if finished > 0 then call('LTRIM', order, finished, -1) end
if #paid > 0 then call('LTRIM', delivered, #paid, -1) end
return { #removed + #paid, #due == chunk and 1 or 0, entries, length, #ids >= chunk and not young and 1 or 0 }
