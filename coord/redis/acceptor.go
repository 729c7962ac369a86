package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/register"
)

// An acceptor is one Redis of several. For each register it keeps a string: the ballot below which it has promised to accept
// nothing (32 digits), the ballot of what it has accepted (32 digits), when that came (16 digits, us), and what it has
// accepted.
//
// It votes only while it remembers all of its votes. So its place in the group is bound to its memory's id, which stands
// under the member key: "<state> <group, 16> <memory, 16> <since, 16 digits, us>". The state is v if it votes, f while the
// group is founded, h while it is healed.
type acceptor struct {
	*Store
	address string
	member  string // the member key

	checking chan struct{} // held while it is checked
	checked  bool

	voting  atomic.Pointer[string]        // the memory that it votes by; nil: it does not
	waiting atomic.Int64                  // for its answers
	looked  atomic.Int64                  // when its membership was last looked at, ns
	looking atomic.Pointer[chan struct{}] // closed when that look is over
}

// KEYS: mark, index, register. ARGV: memory, ballot. It promises to accept nothing below the ballot, and returns
// {what it has accepted or nil, age}, or {the higher ballot that it has promised}.
var prepareScript = newScript(guard + `
local promised = redis.call('GETRANGE', KEYS[3], 0, 31)
if promised == '' then
  redis.call('SET', KEYS[3], ARGV[2] .. string.rep('0', 48))
  redis.call('ZADD', KEYS[2], 0, KEYS[3])
  return {false, 0}
end
if ARGV[2] <= promised then return {promised} end
redis.call('SETRANGE', KEYS[3], 0, ARGV[2])
local t = redis.call('TIME')
local s = redis.call('GETRANGE', KEYS[3], 32, -1)
return {s, t[1] * 1000000 + t[2] - tonumber(string.sub(s, 33, 48))}
`)

// KEYS: mark, index, register. ARGV: memory, ballot, the next ballot, age in us, content, then channels and texts. It
// accepts, promises the next ballot, and returns 1, or {the higher ballot that it has promised}. Content that it had already
// keeps its age.
var acceptScript = newScript(guard + `
local s = redis.call('GETRANGE', KEYS[3], 0, 87)
if s == '' then redis.call('ZADD', KEYS[2], 0, KEYS[3]) end
if s ~= '' and ARGV[2] < string.sub(s, 1, 32) then return {string.sub(s, 1, 32)} end
local since = string.sub(s, 65, 80)
if string.sub(s, 81, 88) ~= string.sub(ARGV[5], 1, 8) then
  local t = redis.call('TIME')
  since = string.format('%016.0f', math.max(0, t[1] * 1000000 + t[2] - ARGV[4]))
end
redis.call('SET', KEYS[3], ARGV[3] .. ARGV[2] .. since .. ARGV[5])
for i = 6, #ARGV, 2 do redis.call('PUBLISH', ARGV[i], ARGV[i + 1]) end
return 1
`)

// KEYS: mark, register. ARGV: memory. It returns {what it has accepted or nil, age}.
var lookScript = newScript(guard + `
local s = redis.call('GETRANGE', KEYS[2], 32, -1)
if s == '' then return {false, 0} end
local t = redis.call('TIME')
return {s, t[1] * 1000000 + t[2] - tonumber(string.sub(s, 33, 48))}
`)

// KEYS: mark, index. ARGV: memory, from, to, how many at most. It returns the last key that it looked at (nil: no more),
// then key, what stands there with its ballots, age, and so on.
var dumpScript = newScript(guard + `
local keys = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
local all = {keys[#keys] or false}
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
for _, key in ipairs(keys) do
  local s = redis.call('GET', key)
  if s and #s >= 80 then
    all[#all + 1] = key
    all[#all + 1] = s
    all[#all + 1] = now - tonumber(string.sub(s, 65, 80))
  end
end
return all
`)

// KEYS: mark, the member key. ARGV: memory. It returns {the member key's content, the time in us}.
var memberScript = newScript(guard + `
local t = redis.call('TIME')
return {redis.call('GET', KEYS[2]) or '', t[1] * 1000000 + t[2]}
`)

// KEYS: mark, the member key. ARGV: memory, what may stand there before (* for anything but a member), what is to stand
// there. The time is added. It returns what stands there afterwards.
var enrolScript = newScript(guard + `
local old = redis.call('GET', KEYS[2]) or ''
local may = string.sub(old, 1, #ARGV[2]) == ARGV[2]
if ARGV[2] == '*' then may = string.sub(old, 1, 1) ~= 'v' or string.sub(old, 20, 35) ~= ARGV[1] end
if ARGV[2] == '' then may = old == '' or string.sub(old, 20, 35) ~= ARGV[1] end
if not may then return old end
local t = redis.call('TIME')
local new = ARGV[3] .. ' ' .. t[1] .. string.format('%06d', t[2])
redis.call('SET', KEYS[2], new)
return new
`)

// KEYS: mark, index, register, the member key. ARGV: memory, what the member key begins with, what is to stand there but
// for the time, age in us. It returns 1, or 2 if the member key says something else.
var healScript = newScript(guard + `
if string.sub(redis.call('GET', KEYS[4]) or '', 1, #ARGV[2]) ~= ARGV[2] then return 2 end
local t = redis.call('TIME')
local since = string.format('%016.0f', math.max(0, t[1] * 1000000 + t[2] - ARGV[4]))
redis.call('SET', KEYS[3], string.sub(ARGV[3], 1, 64) .. since .. string.sub(ARGV[3], 65))
redis.call('ZADD', KEYS[2], 0, KEYS[3])
return 1
`)

// accepted is what an acceptor has accepted for a register.
type accepted struct {
	ballot  ballot // zero: nothing
	content content
	age     time.Duration
}

// a vote is an acceptor's answer: what it has accepted, or the higher ballot that it has promised.
type vote struct {
	from     *acceptor
	accepted accepted
	higher   ballot
	refused  bool
	err      error
}

var (
	errNoVote = errors.New("it has forgotten its votes, and does not vote until it is healed")
	errBusy   = errors.New("it does not answer")
)

// maxWaiting is how many requests to an acceptor may be without an answer. No more are sent, since the server may be frozen.
const maxWaiting = 256

func (a *acceptor) ask(ctx context.Context, what *script, keys, args []string) (v vote) {
	v.from = a
	if a.waiting.Add(1) > maxWaiting {
		a.waiting.Add(-1)
		v.err = errBusy
		return v
	}
	defer a.waiting.Add(-1)
	reply, err := a.vote(ctx, what, keys, args)
	if v.err = err; err != nil || reply.IsInt64() {
		return v
	}
	parts, err := reply.ToArray()
	if v.err = err; err != nil {
		return v
	}
	switch len(parts) {
	case 1:
		higher, err := parts[0].ToString()
		v.refused, v.higher, v.err = true, parseBallot(higher), err
	case 2:
		if parts[0].IsNil() {
			return v
		}
		text, err := parts[0].ToString()
		if err == nil {
			v.accepted, err = parseAccepted(text)
		}
		v.accepted.age, v.err = age(parts[1]), err
	default:
		v.err = errStrange
	}
	return v
}

// parseAccepted reads what follows the promised ballot.
func parseAccepted(s string) (a accepted, err error) {
	if len(s) < ballotSize+16 {
		return a, errStrange
	}
	if a.ballot = parseBallot(s); a.ballot == (ballot{}) {
		return a, nil // only promised
	}
	a.content, err = decodeContent(s[ballotSize+16:])
	return a, err
}

// membership finds out whether the acceptor votes, in which group, and for how long it has been in that.
func (a *acceptor) membership(ctx context.Context) (memory, group string, since time.Duration, err error) {
	m, err := a.Memory(ctx)
	if err != nil {
		return "", "", 0, err
	}
	reply, err := a.runIn(ctx, m.ID, memberScript, []string{a.mark, a.member}, nil)
	if err != nil {
		return "", "", 0, err
	}
	parts, err := reply.ToArray()
	if err != nil || len(parts) != 2 {
		return "", "", 0, fmt.Errorf("%w: %w", errStrange, err)
	}
	text, err := parts[0].ToString()
	if err != nil {
		return "", "", 0, err
	}
	now, err := parts[1].AsInt64()
	if err != nil {
		return "", "", 0, err
	}
	f := strings.Fields(text)
	if len(f) != 4 || f[0] != "v" || f[2] != m.ID {
		a.voting.Store(nil)
		return m.ID, "", 0, nil
	}
	begun, err := strconv.ParseInt(f[3], 10, 64)
	return m.ID, f[1], time.Duration(max(0, now-begun)) * time.Microsecond, err
}

// vote runs a script in the memory that the acceptor votes by.
func (a *acceptor) vote(ctx context.Context, what *script, keys, args []string) (reply rueidis.RedisMessage, err error) {
	for range 3 {
		memory := a.voting.Load()
		if memory == nil {
			return reply, errNoVote
		}
		reply, err = a.runIn(ctx, *memory, what, keys, args)
		if !errors.Is(err, register.ErrForgot) {
			return reply, err
		}
		now, err := a.recall(ctx)
		if err != nil {
			return reply, err
		}
		if now.id != *memory && a.voting.CompareAndSwap(memory, nil) {
			a.Log.Warn("redis: it has forgotten its votes, and does not vote until it is healed", "address", a.address)
		}
	}
	return reply, errNoVote
}

// votes reports whether the acceptor votes. If a look at its membership is under way it waits for that first: until then
// nothing that depends on the server's settings may be asked.
func (a *acceptor) votes(ctx context.Context) bool {
	if over := a.looking.Load(); over != nil && a.voting.Load() == nil {
		select {
		case <-*over:
		case <-ctx.Done():
		}
	}
	return a.voting.Load() != nil
}

// runIn runs a script in a certain memory, and fails if the server has another by now.
func (a *acceptor) runIn(ctx context.Context, memory string, what *script, keys, args []string) (rueidis.RedisMessage, error) {
	reply, err := a.conn.run(ctx, what, keys, append([]string{memory}, args...))
	if err == nil && reply.IsInt64() {
		if n, _ := reply.AsInt64(); n == 0 {
			err = register.ErrForgot
		}
	}
	return reply, explain(err)
}

// enrol writes the member key, and returns what stands there.
func (a *acceptor) enrol(ctx context.Context, memory, before, after string) (string, error) {
	reply, err := a.runIn(ctx, memory, enrolScript, []string{a.mark, a.member}, []string{before, after + " " + memory})
	if err != nil {
		return "", err
	}
	return reply.ToString()
}
