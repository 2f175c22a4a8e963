-- Check adds up all records and compares: ARGV is how many records there may be, and how many faults are named.
-- Nothing is written. It returns whether there were too many, and the faults: SKU, bucket, sum, level, records.
local max, most = tonumber(ARGV[1]), tonumber(ARGV[2])
if call('HLEN', stock) > max then return { 1 } end
local faults, sums, skus, all = { 0 }, {}, {}, {}
local counts = { holds = 0, order = 0, deliveries = 0, seconds = 0 }
local function sum(sku)
	if not sums[sku] then
		sums[sku] = { held = 0, sold = 0, delivered = 0, expiring = 0 }
		skus[#skus + 1] = sku
	end
	return sums[sku]
end
local function unit(sku, text)
	counts.seconds = counts.seconds + 1
	sum(sku).expiring = sum(sku).expiring + tonumber(text)
end
local function hold(field, text)
	counts.holds = counts.holds + 1
	local r = decode(field, text)
	if r.state == '2' then
		local items = parse(r.sold == '' and r.items or r.sold)
		for _, sku in ipairs(items.skus) do sum(sku).sold = sum(sku).sold + items.units[sku] end
	elseif r.state == '1' then
		local items = parse(r.items)
		for _, sku in ipairs(items.skus) do
			if r.expires > (all[sku] and all[sku].freed or 0) then sum(sku).held = sum(sku).held + items.units[sku] end
		end
	end
end
local function delivery(text)
	counts.deliveries = counts.deliveries + 1
	local away, items = match(text, '^(%d) %d+%z(.+)$')
	items = parse(items)
	for _, sku in ipairs(items.skus) do
		local units = items.units[sku]
		sum(sku).delivered = sum(sku).delivered + (away == '1' and -units or units)
	end
end
local function scan(each)
	local cursor = '0'
	repeat
		local page = call('HSCAN', stock, cursor, 'COUNT', 1000)
		cursor = page[1]
		for i = 1, #page[2], 2 do each(page[2][i], page[2][i + 1]) end
	until cursor == '0'
end
-- The levels first: they say which holds were freed.
scan(function(field, text)
	local sku = match(field, '^(%Z+)%z%d+$')
	if sku then
		unit(sku, text)
	elseif match(field, '^%Z') then
		all[field] = levels(text)
		sum(field)
	end
end)
scan(function(field, text)
	local kind = match(field, '^%z(.)')
	if kind == 'h' then hold(field, text) elseif kind == 'd' then delivery(text) end
end)
for i = 0, call('LLEN', order) - 1, 100 do
	for _, entry in ipairs(call('LRANGE', order, i, i + 99)) do
		local _, count = string.gsub(entry, '%z', '')
		counts.order = counts.order + count
	end
end
local function differ(sku, bucket, what, level, entries)
	if level ~= entries and #faults <= most then
		faults[#faults + 1] = concat({ sku, bucket, what, format('%d', level), format('%d', entries) }, '\0')
	end
end
differ('', -1, 'order', counts.holds, counts.order)
differ('', -1, 'delivered', counts.deliveries, call('LLEN', delivered))
differ('', -1, 'seconds', counts.seconds, call('ZCARD', seconds))
table.sort(skus)
for i = 1, #skus do
	local sku = skus[i]
	local k, s = all[sku], sums[sku]
	if not k then k = { supply = 0, available = 0, held = 0, sold = 0, folded = 0, soldfolded = 0 } end
	differ(sku, 0, 'supply', k.supply, k.available + k.held + k.sold)
	differ(sku, 0, 'held', k.held, s.held)
	differ(sku, 0, 'expiring', k.held, s.expiring)
	differ(sku, -1, 'supply', k.supply, s.delivered + k.folded)
	differ(sku, -1, 'sold', k.sold, s.sold + k.soldfolded)
end
return faults
