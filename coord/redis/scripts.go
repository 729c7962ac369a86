package redis

import (
	"crypto/sha1"
	"encoding/hex"
)

// script is a program that the server runs in one go.
type script struct{ text, sha string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text, hex.EncodeToString(sum[:])}
}

// The mark says what this database remembers. It is a text:
//
//	<id, 16> <replication id of the server, 40> <kept on disk, 1> <remembers since, 16 digits, us> <run id of the server, 40>
//
// The guard begins each script that sees registers. It demands that the memory is the one that the caller knows (ARGV[1]),
// and that the server has neither been restarted nor followed another one since the mark was written: either gives it
// another replication id. A memory that was promised to outlast a restart ends when there is a replica, since that could be
// promoted. The answer 0 says that nothing was done, and that the caller has to look at the mark.
const guard = `
local mark = redis.call('GET', KEYS[1])
if not mark or string.sub(mark, 1, 16) ~= ARGV[1] then return 0 end
local info = redis.call('INFO', 'replication')
if not string.find(info, 'role:master\r\n', 1, true)
or not string.find(info, 'master_replid:' .. string.sub(mark, 18, 57), 1, true)
or string.sub(mark, 59, 59) == '1' and not string.find(info, 'connected_slaves:0\r\n', 1, true) then return 0 end
`

// A register is a string: version (8), when it was swapped in (16 digits, us), who has reserved the next swap (8), until
// when (16 digits, us), the value.
const headSize = 48

// KEYS: mark, index, register. ARGV: memory, old, next, by, reserve in us, value, then topics and texts.
// It returns 1 if it has swapped, {age} if an earlier try has, and {what stands there, age} for a conflict.
var swapScript = newScript(guard + `
local head = redis.call('GETRANGE', KEYS[3], 0, 47)
local version = string.sub(head, 1, 8)
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local by = string.sub(head, 25, 32)
local free = head == '' or by == '\0\0\0\0\0\0\0\0' or by == ARGV[4] or now > tonumber(string.sub(head, 33, 48))
if version == ARGV[2] then
  if free then
    if ARGV[3] == '' then
      redis.call('DEL', KEYS[3])
      redis.call('ZREM', KEYS[2], KEYS[3])
    else
      redis.call('SET', KEYS[3], ARGV[3] .. t[1] .. string.format('%06d', t[2]) .. '\0\0\0\0\0\0\0\0' .. '0000000000000000' .. ARGV[6])
      if version == '' then redis.call('ZADD', KEYS[2], 0, KEYS[3]) end
    end
    for i = 7, #ARGV, 2 do redis.call('PUBLISH', ARGV[i], ARGV[i + 1]) end
    return 1
  end
elseif version == ARGV[3] then
  if version == '' then return {0} end
  return {now - tonumber(string.sub(head, 9, 24))}
end
if head == '' then return {false, 0} end
if free and ARGV[5] ~= '0' then
  redis.call('SETRANGE', KEYS[3], 24, ARGV[4] .. string.format('%016.0f', now + ARGV[5]))
end
return {redis.call('GET', KEYS[3]), now - tonumber(string.sub(head, 9, 24))}
`)

// KEYS: mark, register. ARGV: memory. It returns {what stands there or nil, age}.
var readScript = newScript(guard + `
local s = redis.call('GET', KEYS[2])
if not s then return {false, 0} end
local t = redis.call('TIME')
return {s, t[1] * 1000000 + t[2] - tonumber(string.sub(s, 9, 24))}
`)

// KEYS: mark, index. ARGV: memory, from, to, how many at most. It returns the last key that it looked at (nil: no more),
// then key, what stands there, age, and so on.
var listScript = newScript(guard + `
local keys = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
local all = {keys[#keys] or false}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
for _, key in ipairs(keys) do
  local s = redis.call('GET', key)
  if s then
    all[#all + 1] = key
    all[#all + 1] = s
    all[#all + 1] = now - tonumber(string.sub(s, 9, 24))
  end
end
return all
`)

// KEYS: mark. ARGV: the id of a new memory, 1 if the server now keeps all that it answers.
// It returns {id, for how long it has remembered, in us, 1 if kept}, or 0 on a server that follows another.
//
// A server goes on with the memory of the mark if the mark is from its present run. Within a run the replication id changes
// when the first replica attaches, or after an hour without one, but also when the server has followed another: then there
// is a second id, that of the other server. A new run goes on with the memory if all was kept on disk and the server has not
// followed another.
//
// A mark that is missing may have been flushed a moment ago, so nothing is remembered then.
const recallScript = `
local info = redis.call('INFO', 'replication')
if not string.find(info, 'role:master\r\n', 1, true) then return 0 end
local server = redis.call('INFO', 'server')
local replid = string.match(info, 'master_replid:(%x+)')
local alone = string.find(info, 'connected_slaves:0\r\n', 1, true)
local followed = string.match(info, 'master_replid2:(%x+)') ~= string.rep('0', 40)
local run = string.match(server, 'run_id:(%x+)')
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local id, kept, since = ARGV[1], ARGV[2], now
if not alone then kept = '0' end
local mark = redis.call('GET', KEYS[1])
if mark then
  local markkept = string.sub(mark, 59, 59)
  local samerun = string.sub(mark, 78, 117) == run
  if string.sub(mark, 18, 57) == replid or not followed and (samerun or markkept == '1' and kept == '1') then
    id = string.sub(mark, 1, 16)
    since = math.min(now, tonumber(string.sub(mark, 61, 76)))
  elseif not followed then
    since = now - (tonumber(string.match(server, 'uptime_in_seconds:(%d+)')) - 1) * 1000000
    since = math.min(now, since)
  end
end
local new = id .. ' ' .. replid .. ' ' .. kept .. ' ' .. string.format('%016.0f', since) .. ' ' .. run
if new ~= mark then redis.call('SET', KEYS[1], new) end
return {id, now - since, tonumber(kept)}
`
