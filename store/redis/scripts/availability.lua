-- Availability looks: ARGV are SKUs. Nothing is written; what has expired counts as available. It returns the
-- levels of each, and stops at the first that is unknown.
local answers = {}
local values = fetch(stock, ARGV)
for i = 1, #ARGV do
	if not values[i] then return answers end
	local k, due, _ = levels(values[i]), 0, nil
	if k.first > 0 and k.first <= now then _, due = expired(ARGV[i]) end
	answers[i] = format('%d %d %d %d', k.supply, k.available + due, k.held - due, k.sold)
end
return answers
