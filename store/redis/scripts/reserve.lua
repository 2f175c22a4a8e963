-- Reserve decides asks in order: ARGV is id, items and options of each. Options are "seconds micros refusals":
-- the time to live, and how many refusals of a SKU are remembered.
open()
local count, ids, skus, options = #ARGV / 3, {}, {}, {}
for i = 1, count do
	ids[i] = ARGV[3 * i - 2]
	local text = ARGV[3 * i - 1]
	if not known[text] then
		local items = parse(text)
		for j = 1, #items.skus do skus[#skus + 1] = items.skus[j] end
	end
end
local found = fetch(holds, ids)
for i = 1, count do texts[ids[i]] = found[i] end
load(skus)

-- short is the first SKU of which there is not enough.
local function short(items)
	for i = 1, #items.skus do
		local sku = items.skus[i]
		if loaded[sku].available < items.units[sku] then return sku end
	end
end

local function unknown(items)
	for i = 1, #items.skus do
		if not loaded[items.skus[i]] then return items.skus[i] end
	end
end

local function option(text)
	local s, u, max = match(text, '^(%d+) (%d+) (%d+)$')
	options[text] = { seconds = tonumber(s), micros = tonumber(u), max = tonumber(max) }
	return options[text]
end

-- refuse records that there was not enough, unless too many refusals are remembered: an old one is never
-- forgotten early, for that would make a retry a sale.
local function refuse(id, text, items, sku, max)
	local k = loaded[sku]
	if k.refusals >= max then return 'B' end
	touch(k).refusals = k.refusals + 1
	local what = concat({ sku, format('%d', items.units[sku]), format('%d', k.available) }, '\0')
	texts[id] = encode({ state = '4', expires = 0, reserved = stamp, items = text, sold = '', short = what, log = '' })
	fresh[#fresh + 1] = id
	return 'S' .. texts[id]
end

local answers = { clock[1] .. ' ' .. clock[2] }
local lasttext, lastsecond, lastrecord, lastanswer -- of a hot SKU, all are the same
for i = 1, count do
	local id, text, opts = ids[i], ARGV[3 * i - 1], options[ARGV[3 * i]] or option(ARGV[3 * i])
	local items, record = parse(text), texts[id]
	local answer
	if record then -- as it was answered first
		answer = (decode(id, record).items == text and 'A' or 'M') .. record
	else
		local sku = unknown(items)
		if sku then
			answer = 'U' .. sku
		else
			sku = short(items)
			if sku then
				answer = refuse(id, text, items, sku, opts.max)
			else
				local second = expiry(items, opts)
				for j = 1, #items.skus do
					local k = loaded[items.skus[j]]
					local units = items.units[k.sku]
					k.available = k.available - units
					k.held = k.held + units
					move(k, second, units)
				end
				if text ~= lasttext or second ~= lastsecond then
					lasttext, lastsecond = text, second
					lastanswer = format('%d', second)
					lastrecord = concat({ '1 ', lastanswer, ' ', stamp, '\0', text })
					lastanswer = 'R' .. lastanswer
				end
				texts[id] = lastrecord
				fresh[#fresh + 1] = id
				answer = lastanswer
			end
		end
	end
	answers[i + 1] = answer
end
commit()
return answers
