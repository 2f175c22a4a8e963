-- Check adds up all records and compares: ARGV is how many records there may be, and how many faults are named.
-- Nothing is written. It returns whether there were too many, and the faults: SKU, bucket, sum, level, records.
local max, most = tonumber(ARGV[1]), tonumber(ARGV[2])
if call('HLEN', holds) + call('HLEN', deliveries) + call('HLEN', stock) > max then return { 1 } end
local faults, sums, skus, value = { 0 }, {}, {}, '1 0 0 0'
local function sum(sku)
	if not sums[sku] then
		sums[sku] = { held = 0, sold = 0, delivered = 0, expiring = 0 }
		skus[#skus + 1] = sku
	end
	return sums[sku]
end
local function scan(key, each)
	local cursor = '0'
	repeat
		local page = call('HSCAN', key, cursor, 'COUNT', 1000)
		cursor = page[1]
		for i = 1, #page[2], 2 do each(page[2][i], page[2][i + 1]) end
	until cursor == '0'
end
local all = {}
scan(stock, function(field, text)
	local sku, second = match(field, '^(%Z+)%z(%d+)$')
	if field == '' then
		value = text
	elseif second then
		sum(sku).expiring = sum(sku).expiring + tonumber(text)
	else
		all[field] = levels(text)
		sum(field)
	end
end)
scan(holds, function(id, text)
	local r = decode(id, text)
	local items = r.state == '2' and r.sold ~= '' and parse(r.sold) or parse(r.items)
	for i = 1, #items.skus do
		local sku = items.skus[i]
		if r.state == '2' then
			sum(sku).sold = sum(sku).sold + items.units[sku]
		elseif r.state == '1' and r.expires > (all[sku] and all[sku].freed or 0) then
			sum(sku).held = sum(sku).held + items.units[sku]
		end
	end
end)
scan(deliveries, function(id, text)
	local away, items = match(text, '^(%d) %d+%z(.+)$')
	items = parse(items)
	for i = 1, #items.skus do
		local units = items.units[items.skus[i]]
		sum(items.skus[i]).delivered = sum(items.skus[i]).delivered + (away == '1' and -units or units)
	end
end)
local function differ(sku, bucket, what, level, entries)
	if level ~= entries and #faults <= most then
		faults[#faults + 1] = concat({ sku, bucket, what, format('%d', level), format('%d', entries) }, '\0')
	end
end
local _, h, o, d = match(value, '^(%d+) (%d+) (%d+) (%d+)$')
differ('', -1, 'holds', tonumber(h), call('HLEN', holds))
differ('', -1, 'order', tonumber(o), call('LLEN', order))
differ('', -1, 'deliveries', tonumber(d), call('HLEN', deliveries))
differ('', -1, 'delivered', tonumber(d), call('LLEN', delivered))
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
