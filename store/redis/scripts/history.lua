-- History is the record of a hold: ARGV is its id.
local record = call('HGET', holds, ARGV[1])
return { clock[1] .. ' ' .. clock[2], record or '' }
