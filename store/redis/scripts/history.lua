-- History is the record of a hold: ARGV is its field.
local record = call('HGET', stock, ARGV[1])
return { clock[1] .. ' ' .. clock[2], record or '' }
