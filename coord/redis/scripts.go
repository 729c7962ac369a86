package redis

import "github.com/turnwise/turnwise/coord/redis/internal/server"

// A register is a string: version (8), when it was swapped in (16 digits, us), who has reserved the next swap (8), until
// when (16 digits, us), the value.
const (
	timeAt   = 8
	headSize = 48
)

// KEYS: mark, index, register, and for a renewal the number of renewals. ARGV: memory, old, next, by, reserve in us, value, then topics
// and texts. It returns the time in us if it has swapped, or {the time, which renewal it is}, {age} if an earlier try has, and {what stands
// there, age, the time} for a conflict, or if that is nothing of ours.
var swapScript = server.NewGuarded(`
local head = redis.call('GETRANGE', KEYS[3], 0, 47)
if head == '' and spoilt(KEYS[3]) then return {'', 0, 0} end
if head == '' and lost(KEYS[2], KEYS[3]) then return 0 end
local version = string.sub(head, 1, 8)
local now = now()
local by = string.sub(head, 25, 32)
local free = head == '' or by == '\0\0\0\0\0\0\0\0' or by == ARGV[4]
if not free then
  local left = stamp(head, 33) - now
  free = left < 0 or left > 1e7 -- longer than anybody reserves: the clock was set back
end
if version == ARGV[2] then
  if free then
    if ARGV[3] == '' then
      redis.call('DEL', KEYS[3])
      redis.call('ZREM', KEYS[2], KEYS[3])
    else
      redis.call('SET', KEYS[3], ARGV[3] .. digits(now) .. '\0\0\0\0\0\0\0\0' .. '0000000000000000' .. ARGV[6])
      if version == '' then redis.call('ZADD', KEYS[2], 0, KEYS[3]) end
    end
    for i = 7, #ARGV, 2 do redis.call('PUBLISH', ARGV[i], ARGV[i + 1]) end
    if not KEYS[4] then return now end
    local n = renewals(KEYS[4]) + 1
    redis.call('SET', KEYS[4], digits(n))
    return {now, n}
  end
elseif version == ARGV[3] then
  if version == '' then return {0} end
  return {now - stamp(head, 9)}
end
if head == '' then return {false, 0, now} end
if free and ARGV[5] ~= '0' then
  redis.call('SETRANGE', KEYS[3], 24, ARGV[4] .. digits(now + ARGV[5]))
end
return {redis.call('GETRANGE', KEYS[3], 0, MOST), now - stamp(head, 9), now}
`)

// KEYS: mark, index, register. ARGV: memory. It returns {what stands there or nil, age, the time in us}.
var readScript = server.NewGuarded(`
local s = redis.call('GETRANGE', KEYS[3], 0, MOST)
if s == '' and spoilt(KEYS[3]) then return {'', 0, 0} end
if s == '' and lost(KEYS[2], KEYS[3]) then return 0 end
local now = now()
if s == '' then return {false, 0, now} end
return {s, now - stamp(s, 9), now}
`)
