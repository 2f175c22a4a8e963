-- Reserve decides asks in order. Most are alike, so ARGV is: the number of kinds; of each kind its items and
-- "seconds micros refusals", the time to live and how many refusals of a SKU are remembered; the kind of each
-- ask, in a row, or nothing if there is only one kind; and the fields of the holds. It returns the clock; the expiry of each
-- kind's holds, in a row; and of each ask that did not simply get one, its number and its answer.
local kinds, skus = {}, {}
for i = 1, tonumber(ARGV[1]) do
	local text = ARGV[2 * i]
	local s, u, max = match(ARGV[2 * i + 1], '^(%d+) (%d+) (%d+)$')
	local items = parse(text)
	kinds[i] = { text = text, items = items, seconds = tonumber(s), micros = tonumber(u), max = tonumber(max) }
	for j = 1, #items.skus do skus[#skus + 1] = items.skus[j] end
end
local numbers = {}
for number in string.gmatch(ARGV[2 * #kinds + 2], '%d+') do numbers[#numbers + 1] = tonumber(number) end
local ids = { unpack(ARGV, 2 * #kinds + 3) }
local found = load(skus, ids)
for i = 1, #ids do texts[ids[i]] = found[i] end

local function unknown(items)
	for i = 1, #items.skus do
		if not loaded[items.skus[i]] then return items.skus[i] end
	end
end

local expiries = {}
for i = 1, #kinds do
	local kind = kinds[i]
	kind.unknown = unknown(kind.items)
	local second = kind.unknown and 0 or expiry(kind.items, kind.seconds, kind.micros)
	expiries[i] = format('%d', second)
	kind.second = second
	kind.record = concat({ '1 ', expiries[i], ' ', stamp, '\0', kind.text })
end

-- short is the first SKU of which there is not enough.
local function short(items)
	for i = 1, #items.skus do
		local sku = items.skus[i]
		if loaded[sku].available < items.units[sku] then return sku end
	end
end

-- refuse records that there was not enough, unless too many refusals are remembered: an old one is never
-- forgotten early, for that would make a retry a sale.
local function refuse(id, kind, sku)
	local k = loaded[sku]
	if k.refusals >= kind.max then return 'B' end
	touch(k).refusals = k.refusals + 1
	local what = concat({ sku, format('%d', kind.items.units[sku]), format('%d', k.available) }, '\0')
	texts[id] = encode({ state = '4', expires = 0, reserved = stamp, items = kind.text, sold = '', short = what, log = '' })
	fresh[#fresh + 1] = id
	return 'S' .. texts[id]
end

local function take(id, kind)
	local items = kind.items
	for i = 1, #items.skus do
		local k = loaded[items.skus[i]]
		local units = items.units[k.sku]
		k.available = k.available - units
		k.held = k.held + units
		move(k, kind.second, units)
	end
	texts[id] = kind.record
	fresh[#fresh + 1] = id
end

local function decide(id, kind)
	local record = texts[id]
	if record then -- as it was answered first
		return (decode(id, record).items == kind.text and 'A' or 'M') .. record
	end
	if kind.unknown then return 'U' .. kind.unknown end
	local sku = short(kind.items)
	if sku then return refuse(id, kind, sku) end
	take(id, kind)
end

local answers = { clock[1] .. ' ' .. clock[2], concat(expiries, ' ') }
for i = 1, #ids do
	local answer = decide(ids[i], kinds[numbers[i] or 1])
	if answer then
		answers[#answers + 1] = i
		answers[#answers + 1] = answer
	end
end
commit()
return answers
