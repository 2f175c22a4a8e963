-- Supply books a delivery, once: ARGV is its id, 1 if it is taken away, its items, and the most units of a SKU.
open()
local id, away, text, max = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
if call('HLEN', deliveries) ~= books.deliveries or call('LLEN', delivered) ~= books.deliveries then
	broken('deliveries are missing')
end
local first = call('HGET', deliveries, id)
if first then -- away, time and items
	local was, items = match(first, '^(%d) %d+%z(.+)$')
	return { was == away and items == text and 'A' or 'M', items }
end
local items = parse(text)
load(items.skus)
for i = 1, #items.skus do
	local sku = items.skus[i]
	local k, units = loaded[sku], items.units[sku]
	if away == '1' and not k then return { 'U', sku } end
	if away == '1' and k.available < units then return { 'S', sku, format('%d', units), format('%d', k.available) } end
	if away == '0' and k and k.supply > max - units then return { 'I', sku } end
end
for i = 1, #items.skus do
	local sku = items.skus[i]
	local units = away == '1' and -items.units[sku] or items.units[sku]
	if not loaded[sku] then
		loaded[sku] = {
			sku = sku, supply = 0, available = 0, held = 0, sold = 0, freed = 0, refusals = 0, first = 0, wasfirst = 0,
			folded = 0, soldfolded = 0, moves = {}
		}
	end
	local k = touch(loaded[sku])
	k.supply = k.supply + units
	k.available = k.available + units
end
books.deliveries = books.deliveries + 1
commit()
call('HSET', deliveries, id, away .. ' ' .. stamp .. '\0' .. text)
call('RPUSH', delivered, id)
return { 'A', text }
