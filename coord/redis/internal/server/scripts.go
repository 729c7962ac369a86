package server

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
)

// Script is a program that the server runs in one go.
type Script struct{ text, sha string }

// NewScript returns a script that runs whatever the server remembers; see [Server.Do]. In it, MOST stands for [MaxStored].
func NewScript(text string) *Script {
	text = strings.ReplaceAll(text, "MOST", strconv.Itoa(MaxStored))
	sum := sha1.Sum([]byte(text))
	return &Script{text, hex.EncodeToString(sum[:])}
}

// NewGuarded returns a script that does nothing unless the server has the memory that its caller knows; see [Server.RunIn].
// Its KEYS[1] is the mark, and its ARGV[1] what the caller knows: the memory, and the replication id. It has the former as memory.
func NewGuarded(text string) *Script { return NewScript(helpers + guard + text) }

// helpers are known to each script. now returns the time in us, and digits is how it is written down. That has 16 digits whatever the
// server's clock says: on a machine that starts with 1970, and is told the date later, there would be fewer, and all that follows in a
// register would be read from the wrong place. stamp reads such a time, and is 0 if somebody has written something else there.
// renewals returns the number under a key; see [Server.Renewals].
const helpers = `
local function now()
  local t = redis.call('TIME')
  return (t[1] * 1000000 + t[2]) % 9e15
end
local function digits(us) return string.format('%016.0f', us) end
local function stamp(s, at)
  local us = tonumber(string.sub(s, at, at + 15))
  return us and us >= 0 and us < 9e15 and us or 0
end
local function renewals(key) return tonumber(redis.call('GET', key)) or 0 end
`

// The mark says what this database remembers. It is a text:
//
//	<id, 16> <replication id of the server, 40> <kept on disk, 1> <remembers since, 16 digits, us> <run id of the server, 40>
//	<how often databases were exchanged or emptied, or keys restored, in this run, 16 digits>
//
// The guard begins each script that sees registers. It demands that the memory is the one that the caller knows (memory), and that the
// server has neither been restarted nor followed another one since the mark was written, nor since the caller looked: either gives it
// another replication id. ARGV[1] has both, as the mark begins. A memory that was promised to outlast a restart ends when there is a replica, since that could be
// promoted, and when the server stops writing to its disk. The answer 0 says that nothing was done, and that the caller has to
// look at the mark.
//
// lost says what it means that a register is empty. The index names all that are not, and the mark, which is no register. So
// if it names an empty one, or lacks the mark, the server has thrown something away, since somebody has it evict keys. Then the
// mark goes, so that all begin anew, and the script must answer 0.
//
// spoilt says that a register that is read as empty is not missing: somebody has put an empty text there, which we never do. Whoever may
// write that one key harms that one line. So it is to be asked before lost, which would end all sessions. It asks by a command that others
// use as well: users may have been given no more.
const guard = `
local function has(index, key) return #redis.call('ZRANGEBYLEX', index, '[' .. key, '[' .. key) > 0 end
local function spoilt(key) return redis.call('GET', key) == '' end
local function lost(index, key)
  if has(index, KEYS[1]) and not has(index, key) then return false end
  redis.call('ZREM', index, key)
  redis.call('DEL', KEYS[1])
  return true
end
local memory = string.sub(ARGV[1], 1, 16)
local mark = redis.call('GET', KEYS[1])
if not mark or string.sub(mark, 1, 57) ~= ARGV[1] then return 0 end
local info = redis.call('INFO', 'replication')
if not string.find(info, 'role:master\r\n', 1, true)
or not string.find(info, 'master_replid:' .. string.sub(mark, 18, 57), 1, true)
or string.sub(mark, 59, 59) == '1' and not (string.find(info, 'connected_slaves:0\r\n', 1, true)
and string.find(redis.call('INFO', 'persistence'), 'aof_enabled:1\r\n', 1, true)) then return 0 end
`

// KEYS: mark, index, the number of renewals. ARGV: the id of a new memory, 1 if the server now keeps all that it answers, a memory that has
// ended, a memory in which the caller has seen a number of renewals, and which.
// It returns {id, for how long it has remembered, in us, 1 if kept, the run of the server, its replication id}, 0 on a server that follows another,
// or 1 on one that throws away keys that do not expire.
//
// A server goes on with the memory of the mark if the mark is from its present run. Within a run the replication id changes
// when the first replica attaches, or after an hour without one, but also when the server has followed another: then there
// is a second id, that of the other server. A new run goes on with the memory if all was kept on disk and the server has not
// followed another. If the server kept all and has ceased to, what it will find on its disk is old: so the memory ends now, and
// everybody knows another one by then. When it begins to write, that counts once all is written.
//
// Who may write nothing of ours may still exchange this database for another (SWAPDB needs no key). Once it is exchanged back, the
// mark tells of nothing that was granted in between. Nor does a mark that comes back from a dump when all was flushed. So after each
// exchange, flush and RESTORE, whichever databases it was of, all begin anew to count for how long the memory has lasted. Sessions that
// have noticed nothing go on.
//
// A server that has a smaller number of renewals than somebody has seen was started with a file that is older than that, such as a backup.
// Then the memory ends, too.
//
// A mark that is missing may have been flushed a moment ago, so nothing is remembered then. And no run tells of a time before
// itself: it may have been started with a file that is older than what was answered, while who holds by that is cut off. How long the
// run lasts the server says by its wall clock. That is negative if the clock was set back to before the start, and so is what is returned.
const recallScript = helpers + `
local info = redis.call('INFO', 'replication')
if not string.find(info, 'role:master\r\n', 1, true) then return 0 end
if string.find(redis.call('INFO', 'memory'), 'maxmemory_policy:allkeys-', 1, true) then return 1 end
local server = redis.call('INFO', 'server')
local disk = redis.call('INFO', 'persistence')
local written = string.find(disk, 'aof_enabled:1\r\n', 1, true)
local ready = string.find(disk, 'aof_rewrite_in_progress:0\r\n', 1, true) and string.find(disk, 'aof_rewrite_scheduled:0\r\n', 1, true)
local replid = string.match(info, 'master_replid:(%x+)')
local alone = string.find(info, 'connected_slaves:0\r\n', 1, true)
local followed = string.match(info, 'master_replid2:(%x+)') ~= string.rep('0', 40)
local run = string.match(server, 'run_id:(%x+)')
local stats, swaps = redis.call('INFO', 'commandstats'), 0
for _, name in ipairs({'swapdb', 'flushall', 'flushdb', 'restore', 'restore%-asking'}) do
  swaps = swaps + tonumber(string.match(stats, 'cmdstat_' .. name .. ':calls=(%d+)') or 0)
end
swaps = digits(swaps)
local now = now()
local uptime = tonumber(string.match(server, 'uptime_in_seconds:(%-?%d+)'))
local started = now - (uptime - 1) * 1000000
if uptime >= 0 then started = math.min(now, started) end
local id, kept, since = ARGV[1], ARGV[2], now
if not alone or not written then kept = '0' end
local mark = redis.call('GET', KEYS[1])
local named = #redis.call('ZRANGEBYLEX', KEYS[2], '[' .. KEYS[1], '[' .. KEYS[1]) > 0
if not ready and not (mark and string.sub(mark, 59, 59) == '1') then kept = '0' end
if mark and string.sub(mark, 1, 16) == ARGV[3] then named = false end
if mark and string.sub(mark, 1, 16) == ARGV[4] and renewals(KEYS[3]) < tonumber(ARGV[5]) then named = false end
if mark and named and not (string.sub(mark, 59, 59) == '1' and not written) then
  local markkept = string.sub(mark, 59, 59)
  local samerun = string.sub(mark, 78, 117) == run
  if string.sub(mark, 18, 57) == replid or not followed and (samerun or markkept == '1' and kept == '1') then
    id = string.sub(mark, 1, 16)
    since = math.min(now, tonumber(string.sub(mark, 61, 76)))
  elseif not followed then
    since = math.min(now, started)
  end
  if swaps ~= (samerun and string.sub(mark, 119, 134) or string.rep('0', 16)) then since = now end
end
local new = id .. ' ' .. replid .. ' ' .. kept .. ' ' .. digits(since) .. ' ' .. run .. ' ' .. swaps
if new ~= mark then redis.call('SET', KEYS[1], new) end
if not named then redis.call('ZADD', KEYS[2], 0, KEYS[1]) end
return {id, now - math.max(since, started), tonumber(kept), run, replid}
`

// KEYS: mark, index, a register that is nobody's. ARGV: memory, a value, a channel. It uses each command that other scripts
// use, and returns {the value, what the index has}. What takes things away comes first: if that is not allowed, nothing stays.
var rehearsalScript = NewGuarded(`
redis.call('DEL', KEYS[3])
redis.call('ZREM', KEYS[2], KEYS[3])
redis.call('PUBLISH', ARGV[3], '')
redis.call('SET', KEYS[3], digits(now()), 'PX', 60000)
redis.call('SETRANGE', KEYS[3], 0, ARGV[2])
local value = redis.call('GETRANGE', KEYS[3], 0, #ARGV[2] - 1)
if redis.call('GET', KEYS[3]) == false then value = '' end
redis.call('ZADD', KEYS[2], 0, KEYS[3])
local keys = redis.call('ZRANGEBYLEX', KEYS[2], '[' .. KEYS[3], '[' .. KEYS[3])
redis.call('ZREM', KEYS[2], KEYS[3])
redis.call('DEL', KEYS[3])
return {value, keys[1] or ''}
`)

// KEYS: mark, index. ARGV: memory, from, to, how many at most, where in a register its time is (16 digits, us; counted from
// 1), where it has eight zeros if it is not to be listed (0: nowhere), whether to list what is strange. It returns the last key that it
// looked at (nil: no more), then key, what stands there, age, and so on. What is larger than anything of ours or has no time is strange:
// it is left out, or "?" stands for it. The page ends early when there is much on it.
var listScript = NewGuarded(`
if not has(KEYS[2], KEYS[1]) then
  redis.call('DEL', KEYS[1])
  return 0
end
local keys = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
local all, size = {false}, 0
local now = now()
for _, key in ipairs(keys) do
  local s = redis.pcall('GETRANGE', key, 0, MOST)
  if type(s) ~= 'string' then s = 'a list, or a set' end
  all[1] = key
  if s == '' and not spoilt(key) and lost(KEYS[2], key) then return 0 end
  local since = tonumber(string.sub(s, ARGV[5], ARGV[5] + 15))
  local gone = ARGV[6] ~= '0' and string.sub(s, ARGV[6], ARGV[6] + 7) == '\0\0\0\0\0\0\0\0'
  if since and #s >= ARGV[5] + 15 and #s <= MOST and not gone then
    all[#all + 1] = key
    all[#all + 1] = s
    all[#all + 1] = now - since
    size = size + #s
    if size > MOST then break end
  elseif ARGV[7] == '1' and not gone then
    all[#all + 1], all[#all + 2], all[#all + 3] = key, '?', 0
  end
end
return all
`)
