package redisfence

import (
	"context"
	"fmt"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
)

// Eval runs a script on the server and returns its result. See the package comment.
type Eval func(ctx context.Context, script string, keys, args []string) (any, error)

// Fence runs scripts, but not for a stale holder. It may be used by any number of goroutines.
type Fence struct{ eval Eval }

// New returns a fence on the server that eval asks.
func New(eval Eval) *Fence { return &Fence{eval} }

// Key returns the key that has the fence of a line: "turnwise:fence:{orders}" for orders. Its value is the greatest
// stamp, in digits of fixed width.
func Key(line string) string { return "turnwise:fence:{" + line + "}" }

// Do runs the script, or returns coord.ErrStale and runs nothing if a greater stamp of the line has been seen. In the
// script, KEYS and ARGV are keys and args. The result is the script's, as the client library converts it, or nil.
//
// After any other error nobody knows whether it has run.
func (f *Fence) Do(ctx context.Context, line string, s fence.Stamp, script string, keys, args []string) (any, error) {
	if err := coord.CheckName(line); err != nil {
		return nil, err
	}
	result, err := f.do(ctx, line, s, script, keys, args)
	if err != nil {
		return nil, &coord.Error{Op: "pass", Line: line, Err: err}
	}
	return result, nil
}

// Pass is Do without a script, for callers that write elsewhere, such as httpfence.
func (f *Fence) Pass(ctx context.Context, line string, s fence.Stamp) error {
	_, err := f.Do(ctx, line, s, "return nil", nil, nil)
	return err
}

func (f *Fence) do(ctx context.Context, line string, s fence.Stamp, script string, keys, args []string) (any, error) {
	if err := s.After(fence.Stamp{}); err != nil {
		return nil, err
	}
	keys = append(keys[:len(keys):len(keys)], Key(line))
	args = append(args[:len(args):len(args)], format(s))
	reply, err := f.eval(ctx, before+script+after, keys, args)
	if err != nil {
		return nil, err
	}
	list, _ := reply.([]any)
	if len(list) == 0 {
		return nil, fmt.Errorf("the script gave %v: does Eval return its result as it is?", reply)
	}
	switch list[0] {
	case int64(1):
		if len(list) == 1 {
			return nil, nil
		}
		return list[1], nil
	case int64(0):
		last, err := parse(fmt.Sprint(list[1:]...))
		if err == nil {
			err = s.After(last)
		}
		if err == nil {
			err = fmt.Errorf("%w: %v, and the server says that %v has been seen", coord.ErrStale, s, last)
		}
		return nil, err
	}
	return nil, fmt.Errorf("the script gave %v: does Eval return its result as it is?", reply)
}

// The user's script becomes a function between these. In the server's scripts numbers are exact only up to 2^53, so
// stamps are compared as texts of one length.
const (
	before = `local key, mine = table.remove(KEYS), table.remove(ARGV)
local last = redis.call('GET', key)
if last and last > mine then return {0, last} end
if last ~= mine then redis.call('SET', key, mine) end
local function run()
`
	after = `
end
local result = run()
if type(result) == 'table' and result.err then return result end
return {1, result}`
)

// format returns a stamp as the server keeps it.
func format(s fence.Stamp) string { return fmt.Sprintf("%010d.%019d", s.Epoch, s.Token) }

func parse(text string) (s fence.Stamp, err error) {
	if _, err := fmt.Sscanf(text, "%010d.%019d", &s.Epoch, &s.Token); err != nil || format(s) != text {
		return fence.Stamp{}, fmt.Errorf("the key of the fence holds %q, which is no stamp: has somebody else written to it?", text)
	}
	return s, nil
}
