-- Settle decides asks in order: ARGV is act, field and detail of each. The acts are confirm (the items that are
-- wanted, or nothing for all), release, and extend ("seconds micros").
local count, ids, skus, records = #ARGV / 3, {}, {}, {}
for i = 1, count do ids[i] = ARGV[3 * i - 1] end
local found = fetch(stock, ids)
for i = 1, count do
	if found[i] and not records[ids[i]] then
		local r = decode(ids[i], found[i])
		records[r.id] = r
		if r.state == '1' then -- of the others nothing is held
			local items = parse(r.items)
			for j = 1, #items.skus do skus[#skus + 1] = items.skus[j] end
		end
	end
end
load(skus)
for i = 1, #skus do need(skus[i]) end

-- has says whether the units of a SKU are still the hold's, or were freed when it had expired.
local function has(r, sku) return r.expires > loaded[sku].freed end

-- back returns what the hold still has to what is available, once: its state changes with it.
local function back(r)
	local items = parse(r.items)
	for i = 1, #items.skus do
		local k = loaded[items.skus[i]]
		if has(r, k.sku) then
			local units = items.units[k.sku]
			k.held = k.held - units
			k.available = k.available + units
			move(k, r.expires, -units)
		end
	end
end

-- lack is the first SKU of which the hold's units were freed, and others have them now.
local function lack(r, wanted)
	for i = 1, #wanted.skus do
		local sku = wanted.skus[i]
		if not has(r, sku) and loaded[sku].available < wanted.units[sku] then return sku end
	end
end

local function within(wanted, items)
	for i = 1, #wanted.skus do
		if wanted.units[wanted.skus[i]] > (items.units[wanted.skus[i]] or 0) then return false end
	end
	return true
end

-- sell makes sold units of held ones; what was freed is taken again, all of it or nothing.
local function sell(r, text)
	local wanted = parse(text)
	local sku = lack(r, wanted)
	back(r)
	if sku then
		r.state = '5'
		r.short = concat({ sku, format('%d', wanted.units[sku]), format('%d', loaded[sku].available) }, '\0')
		note(r, 'lapsed')
		return 'L'
	end
	for i = 1, #wanted.skus do
		local k = touch(loaded[wanted.skus[i]])
		local units = wanted.units[k.sku]
		k.available = k.available - units
		k.sold = k.sold + units
	end
	r.state = '2'
	if text ~= r.items then r.sold = text end
	note(r, 'confirmed')
	return 'C'
end

local function confirm(r, text)
	if text == '' then text = r.items end
	if r.state == '2' then return (r.sold == '' and r.items or r.sold) == text and 'P' or 'D' end
	if r.state == '5' then return 'L', true end
	if r.state ~= '1' then return 'T' end
	if not within(parse(text), parse(r.items)) then return 'I' end
	return sell(r, text)
end

local function release(r)
	if r.state == '3' or r.state == '5' then return 'P' end
	if r.state ~= '1' then return 'T' end
	back(r)
	r.state = '3'
	note(r, 'released')
	return 'C'
end

-- extend moves the expiry, never backwards, and never revives.
local function extend(r, text)
	if r.state == '5' then return 'L' end
	if r.state ~= '1' then return 'T' end
	local items = parse(r.items)
	for i = 1, #items.skus do
		if r.expires <= now or not has(r, items.skus[i]) then return 'X' end
	end
	local s, u = match(text, '^(%d+) (%d+)$')
	local second = expiry(items, tonumber(s), tonumber(u))
	if second > r.expires then
		for i = 1, #items.skus do
			local k = loaded[items.skus[i]]
			move(k, r.expires, -items.units[k.sku])
			move(k, second, items.units[k.sku])
		end
		r.expires = second
		note(r, 'extended')
	end
	return 'C'
end

local acts = { c = confirm, r = release, e = extend }
local answers = { clock[1] .. ' ' .. clock[2] }
for i = 1, count do
	local r = records[ids[i]]
	if not r then
		answers[i + 1] = 'N'
	else
		local code, again = acts[ARGV[3 * i - 2]](r, ARGV[3 * i])
		answers[i + 1] = (again and 'l' or code) .. encode(r)
	end
end
commit()
return answers
