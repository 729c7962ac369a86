package quorum

import "github.com/turnwise/turnwise/coord/redis/internal/server"

// For each register an acceptor keeps a string: the ballot below which it has promised to accept nothing (32 digits), the
// ballot of what it has accepted (32 digits), when that came (16 digits, us), and what it has accepted.
const (
	timeAt    = 2 * ballotSize
	timeSize  = 16
	versionAt = timeAt + timeSize + 8 // after the id; zero: it is empty
)

// inTerm begins each script that votes: it returns 2 unless the server is a member of the group, and in the term, that the caller
// goes by. KEYS[4] is the member key, and ARGV[2] the roster's stamp.
const inTerm = `
local member = redis.call('GETRANGE', KEYS[4], 0, 60)
if string.sub(member, 1, 18) .. string.sub(member, 54, 61) ~= 'v ' .. ARGV[2] then return 2 end
`

// isStrange is in each script that votes, for what somebody else has written to a register. Who finds such a thing does not vote
// there, and returns 3: what it promised and accepted is not known any more, and certainly is not nothing.
const isStrange = `
local function strange(s) return not string.find(string.sub(s, 1, 80), '^' .. string.rep('%d', 80)) end
`

// newVote returns a script with KEYS: mark, index, register, the member key, the floor, and ARGV: memory, stamp, and what the
// script says.
//
// The floor is a ballot. When a register that has gone is forgotten, it rises above all that was promised there. Nobody begins
// such a register anew with less: another acceptor may not have forgotten it, and what it has would count for more.
func newVote(text string) *server.Script { return server.NewGuarded(inTerm + isStrange + text) }

const belowFloor = `
local floor = redis.call('GET', KEYS[5])
if floor and ARGV[3] <= floor then return {floor} end
`

// It returns {the floor}.
var presentScript = newVote(`return {redis.call('GET', KEYS[5]) or ''}`)

// ARGV: …, ballot. It promises to accept nothing below the ballot, and returns
// {what it has accepted or nil, age}, or {the higher ballot that it has promised}.
var prepareScript = newVote(`
local had = redis.call('GETRANGE', KEYS[3], 0, 79)
if had == '' and spoilt(KEYS[3]) then return 3 end
if had == '' and lost(KEYS[2], KEYS[3]) then return 0 end
if had == '' then ` + belowFloor + `
  redis.call('SET', KEYS[3], ARGV[3] .. string.rep('0', 48))
  redis.call('ZADD', KEYS[2], 0, KEYS[3])
  return {false, 0}
end
if strange(had) then return 3 end
local promised = string.sub(had, 1, 32)
if ARGV[3] <= promised then return {promised} end
redis.call('SETRANGE', KEYS[3], 0, ARGV[3])
local s = redis.call('GETRANGE', KEYS[3], 32, MOST + 32)
return {s, now() - tonumber(string.sub(s, 33, 48))}
`)

// ARGV: …, ballot, the next ballot, age in us, content, then channels and texts. It accepts, tells each text with the
// memory before it, promises the next ballot, and returns 1, or {the higher ballot that it has promised}. Content that it had already keeps its age.
var acceptScript = newVote(`
local s = redis.call('GETRANGE', KEYS[3], 0, 87)
if s == '' and spoilt(KEYS[3]) then return 3 end
if s == '' and lost(KEYS[2], KEYS[3]) then return 0 end
if s == '' then ` + belowFloor + `
  redis.call('ZADD', KEYS[2], 0, KEYS[3])
end
if s ~= '' and strange(s) then return 3 end
if s ~= '' and ARGV[3] < string.sub(s, 1, 32) then return {string.sub(s, 1, 32)} end
local since = string.sub(s, 65, 80)
if string.sub(s, 81, 88) ~= string.sub(ARGV[6], 1, 8) then
  since = digits(math.max(0, now() - ARGV[5]))
end
redis.call('SET', KEYS[3], ARGV[4] .. ARGV[3] .. since .. ARGV[6])
for i = 7, #ARGV, 2 do redis.call('PUBLISH', ARGV[i], memory .. ARGV[i + 1]) end
return 1
`)

// It returns {what it has accepted or nil, age}.
var lookScript = newVote(`
local s = redis.call('GETRANGE', KEYS[3], 0, MOST + 32)
if s == '' and spoilt(KEYS[3]) then return 3 end
if s == '' and lost(KEYS[2], KEYS[3]) then return 0 end
if s == '' then return {false, 0} end
if strange(s) then return 3 end
return {string.sub(s, 33), now() - tonumber(string.sub(s, 65, 80))}
`)

// KEYS: mark, the member key. ARGV: memory. It returns {the member key's content, the time in us}.
var memberScript = server.NewGuarded(`
return {redis.call('GETRANGE', KEYS[2], 0, 8191), now()}
`)

// KEYS: mark, the member key, index. ARGV: memory, what may stand there before (* for anything but a member of the term in ARGV[5]
// or later), what is to stand there before the time, and after it. It returns what stands there afterwards, or nothing if a group
// is to be founded on registers of another: what one server has left of those would count for more than what the new group has
// agreed to.
var enrolScript = server.NewGuarded(`
local old = redis.call('GETRANGE', KEYS[2], 0, 8191)
local ours = string.sub(old, 1, 1) == 'v' and string.sub(old, 20, 35) == memory
local may = string.sub(old, 1, #ARGV[2]) == ARGV[2]
if ARGV[2] == '*' then may = not ours or string.sub(old, 54, 61) < ARGV[5] end
if ARGV[2] == '' then may = old == '' or string.sub(old, 1, 1) == 'h' or string.sub(old, 20, 35) ~= memory end
if not may then return old end
if string.sub(ARGV[3], 1, 1) == 'f' and #redis.call('ZRANGEBYLEX', KEYS[3], '-', '+', 'LIMIT', 0, 2) > 1 then return '' end
local new = ARGV[3] .. ' ' .. digits(now()) .. ' ' .. ARGV[4]
redis.call('SET', KEYS[2], new)
return new
`)

// KEYS: mark, the member key. ARGV: memory, group, term, roster, since when the roster lists it. It takes a member of the group from an
// earlier term to this one, unless it was listed since and has to be filled first. It returns what stands there afterwards.
var moveScript = server.NewGuarded(`
local old = redis.call('GETRANGE', KEYS[2], 0, 8191)
if string.sub(old, 1, 35) ~= 'v ' .. ARGV[2] .. ' ' .. memory then return old end
local was = string.sub(old, 54, 61)
if was >= ARGV[3] or was < ARGV[5] then return old end
local new = string.sub(old, 1, 53) .. ARGV[4]
redis.call('SET', KEYS[2], new)
return new
`)

// KEYS: mark, index, the member key, the floor. ARGV: memory, what the member key begins with, a floor. It raises the floor, removes some of the registers, and returns 1
// if there are more, 0 if there are none, or 2 if the member key says something else.
var wipeScript = server.NewGuarded(`
if string.sub(redis.call('GET', KEYS[3]) or '', 1, #ARGV[2]) ~= ARGV[2] then return {2} end
if ARGV[3] > (redis.call('GET', KEYS[4]) or '') then redis.call('SET', KEYS[4], ARGV[3]) end
local keys = redis.call('ZRANGEBYLEX', KEYS[2], '-', '+', 'LIMIT', 0, 1000)
local more = 0
for _, key in ipairs(keys) do
  if key ~= KEYS[1] then
    redis.call('DEL', key)
    redis.call('ZREM', KEYS[2], key)
    more = 1
  end
end
return {more}
`)

// KEYS: mark, index, register, the member key. ARGV: memory, what the member key begins with, what is to stand there but
// for the time, age in us. It returns 1, or 2 if the member key says something else.
var healScript = server.NewGuarded(`
if string.sub(redis.call('GET', KEYS[4]) or '', 1, #ARGV[2]) ~= ARGV[2] then return 2 end
local since = digits(math.max(0, now() - ARGV[4]))
redis.call('SET', KEYS[3], string.sub(ARGV[3], 1, 64) .. since .. string.sub(ARGV[3], 65))
redis.call('ZADD', KEYS[2], 0, KEYS[3])
return 1
`)

// gone is what a register must be to be forgotten. ARGV[4] is how old it must be, in us: then no request is under way any more that
// knows what was there. Nobody has been promised anything since.
//
// Whoever may write to one register may have written anything there. The floor is for all registers, so it rises above nothing that is
// no ballot, and no further than a tenth of the ballots there are (ballotEnd): a register that would raise it more stays.
const gone = `
local now = now()
local function read(key)
  local s = redis.pcall('GETRANGE', key, 0, 95)
  return type(s) == 'string' and s or ''
end
local function gone(s)
  return #s == 96 and string.sub(s, 89, 96) == '\0\0\0\0\0\0\0\0' and string.sub(s, 17, 32) == string.sub(s, 49, 64)
    and not strange(s) and string.sub(s, 1, 16) < '0100000000000000'
    and tonumber(string.sub(s, 1, 16)) == tonumber(string.sub(s, 33, 48)) + 1 and now - tonumber(string.sub(s, 65, 80)) > tonumber(ARGV[4])
end
`

// ARGV: …, the key to go on after, an age. It returns the last key that it looked at (nil: there are no more), then the key and the
// ballot of each that is gone. If it was only promised, that is zero.
var goneScript = newVote(gone + `
local from = ARGV[3] == '' and '-' or '(' .. ARGV[3]
local keys = redis.call('ZRANGEBYLEX', KEYS[2], from, '+', 'LIMIT', 0, 500)
local all = {keys[#keys] or false}
for _, key in ipairs(keys) do
  local s = key ~= KEYS[1] and read(key) or ''
  if gone(s) or #s == 80 then
    all[#all + 1] = key
    all[#all + 1] = string.sub(s, 33, 64)
  end
end
return all
`)

// ARGV: …, the ballot at which it has gone, an age. It forgets a register, and returns {how many}.
var forgetScript = newVote(gone + `
local s = read(KEYS[3])
if not gone(s) or string.sub(s, 33, 64) ~= ARGV[3] then return {0} end
local promised, floor = string.sub(s, 1, 32), redis.call('GET', KEYS[5]) or ''
if floor < promised then redis.call('SET', KEYS[5], promised) end
redis.call('DEL', KEYS[3])
redis.call('ZREM', KEYS[2], KEYS[3])
return {1}
`)

// KEYS: the turn. ARGV: who, for how long in ms. It returns 1 if the turn is theirs.
var turnScript = server.NewScript(`
local has = redis.call('GET', KEYS[1])
if has and has ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`)

// KEYS: the turn. ARGV: who.
var turnEndScript = server.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
`)
