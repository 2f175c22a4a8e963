-- Supply books a delivery, once: ARGV is its field, 1 if it is taken away, its items, and the most units of a SKU.
local field, away, text, max = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local items = parse(text)
local first = load(items.skus, { field })[1]
if first then -- away, time and items
	local was, had = match(first, '^(%d) %d+%z(.+)$')
	return { was == away and had == text and 'A' or 'M', had }
end
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
call('RPUSH', delivered, field) -- passed over while there is no such delivery
texts[field] = away .. ' ' .. stamp .. '\0' .. text
commit({ field })
return { 'A', text }
