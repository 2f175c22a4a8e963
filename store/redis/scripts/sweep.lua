-- Sweep frees what has expired of up to so many SKUs, and removes records that were settled, refused or
-- delivered longer than keep ago: ARGV is how many at most, and keep in microseconds. It returns how many it
-- removed, whether there is more to free, how many holds it looked at, and how many there were.
open()
local limit, before = tonumber(ARGV[1]), tonumber(stamp) - tonumber(ARGV[2])
if call('HLEN', deliveries) ~= books.deliveries or call('LLEN', delivered) ~= books.deliveries then
	broken('deliveries are missing')
end
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

local length = books.holds
local ids = limit > 0 and call('LRANGE', order, 0, chunk - 1) or {}
local found = fetch(holds, ids)
local skus, looks, removed, later = {}, {}, {}, {}
for i = 1, #ids do
	if not found[i] then broken('a hold is missing: ' .. ids[i]) end
	local r = decode(ids[i], found[i])
	if tonumber(r.reserved) > before then break end -- so are all behind it
	looks[i] = r
	for _, sku in ipairs(parse(r.items).skus) do skus[#skus + 1] = sku end
end
load(skus)
local looked = 0
for i = 1, #looks do
	if #removed == limit then break end
	local r = looks[i]
	looked = i
	if old(r) then
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
	else
		later[#later + 1] = r.id -- it gets its turn again at the end of the list
	end
end

local paid = {}
if #removed < limit then
	local names = call('LRANGE', delivered, 0, math.min(chunk, limit - #removed) - 1)
	local bills = fetch(deliveries, names)
	for i = 1, #names do
		if not bills[i] then broken('a delivery is missing: ' .. names[i]) end
		local away, at, text = match(bills[i], '^(%d) (%d+)%z(.+)$')
		if tonumber(at) > before then break end
		paid[i] = names[i]
		local items = parse(text)
		load(items.skus)
		for _, sku in ipairs(items.skus) do
			local k = touch(need(sku))
			k.folded = k.folded + (away == '1' and -items.units[sku] or items.units[sku])
		end
	end
end
books.holds = books.holds - #removed
books.deliveries = books.deliveries - #paid
commit()
if looked > 0 then call('LTRIM', order, looked, -1) end
send('RPUSH', order, later)
send('HDEL', holds, removed)
if #paid > 0 then call('LTRIM', delivered, #paid, -1) end
send('HDEL', deliveries, paid)
return { #removed + #paid, #due == chunk and 1 or 0, looked, length }
