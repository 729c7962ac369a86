package fences

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
	"github.com/turnwise/turnwise/fence/redisfence"
	"github.com/turnwise/turnwise/verify/servers"
)

// withEveryClient calls f with a line that nobody has used.
func withEveryClient(t *testing.T, f func(t *testing.T, fences *redisfence.Fence, eval redisfence.Eval, line string)) {
	for name, connect := range map[string]func(string) (redisfence.Eval, func(), error){"go-redis": goRedis, "rueidis": viaRueidis} {
		t.Run(name, func(t *testing.T) {
			eval, end, err := connect(servers.Redis(t, servers.Shared()).URL())
			require.NoError(t, err)
			t.Cleanup(end)
			f(t, redisfence.New(eval), eval, fmt.Sprintf("line/%d", rand.Uint64()))
		})
	}
}

func TestRedisRefusesWhatIsStale(t *testing.T) {
	withEveryClient(t, func(t *testing.T, f *redisfence.Fence, _ redisfence.Eval, line string) {
		pass := func(s fence.Stamp) error { return f.Pass(t.Context(), line, s) }
		assert.NoError(t, pass(fence.Stamp{Token: 5}))
		assert.NoError(t, pass(fence.Stamp{Token: 5}), "the same holder again")
		assert.EqualError(t, pass(fence.Stamp{Token: 4}), fmt.Sprintf("turnwise: pass %q: token is stale: 4, and 5 has been seen", line))
		assert.ErrorIs(t, pass(fence.Stamp{Token: 4}), coord.ErrStale)
		assert.NoError(t, pass(fence.Stamp{Token: 1<<53 + 2}))
		assert.ErrorIs(t, pass(fence.Stamp{Token: 1<<53 + 1}), coord.ErrStale, "the server's numbers do not tell them apart")
		assert.NoError(t, pass(fence.Stamp{Token: math.MaxInt64}))
		assert.NoError(t, pass(fence.Stamp{Epoch: 1, Token: 9}), "on another engine")
		assert.ErrorIs(t, pass(fence.Stamp{Token: math.MaxInt64}), coord.ErrStale)
		assert.NoError(t, pass(fence.Stamp{Epoch: 1, Token: 10}))
		assert.NoError(t, pass(fence.Stamp{Epoch: math.MaxUint32, Token: 1}))
		assert.ErrorIs(t, pass(fence.Stamp{}), coord.ErrInvalid)
		assert.ErrorIs(t, f.Pass(t.Context(), "", fence.Stamp{Token: 1}), coord.ErrInvalidName)
	})
}

func TestRedisRunsTheScriptInTheSameStep(t *testing.T) {
	withEveryClient(t, func(t *testing.T, f *redisfence.Fence, _ redisfence.Eval, line string) {
		key := "{" + line + "}:data"
		do := func(token coord.Token, script string, args ...string) (any, error) {
			return f.Do(t.Context(), line, fence.Stamp{Token: token}, script, []string{key}, args)
		}
		for _, c := range []struct {
			script string
			want   any
		}{
			{`return redis.call('SET', KEYS[1], ARGV[1])`, "OK"},
			{`return redis.call('GET', KEYS[1])`, "one"},
			{`return {#KEYS, #ARGV, KEYS[1], ARGV[1], ARGV[2]}`, []any{int64(1), int64(2), key, "one", "two"}},
			{`return 17`, int64(17)},
			{`return {1, {2, 'x'}}`, []any{int64(1), []any{int64(2), "x"}}},
			{`return nil`, nil},
			{`return false`, nil},
			{`return {}`, []any{}},
			{``, nil},
			{`return 1 -- the end`, int64(1)},
		} {
			got, err := do(5, c.script, "one", "two")
			assert.NoError(t, err, c.script)
			assert.EqualValues(t, c.want, got, c.script)
		}
		_, err := do(4, `return redis.call('SET', KEYS[1], 'stale')`)
		assert.ErrorIs(t, err, coord.ErrStale)
		for script, says := range map[string]string{
			`return redis.call('LPUSH', KEYS[1], 'x')`: "WRONGTYPE",
			`return redis.error_reply('MINE alone')`:   "MINE alone",
			`return redis.pcall('LPUSH', KEYS[1], 1)`:  "WRONGTYPE",
			`this is no script`:                        "compiling",
		} {
			_, err := do(6, script)
			assert.ErrorContains(t, err, says, script)
			assert.NotErrorIs(t, err, coord.ErrStale)
		}
		got, err := do(6, `return redis.call('GET', KEYS[1])`)
		assert.NoError(t, err)
		assert.Equal(t, "one", got)

		keys, args := make([]string, 1, 10), make([]string, 1, 10)
		keys[0], args[0] = key, "kept"
		_, err = f.Do(t.Context(), line, fence.Stamp{Token: 7}, `return 1`, keys, args)
		assert.NoError(t, err)
		assert.Empty(t, keys[:2][1], "what is behind the caller's keys is the caller's")
		assert.Empty(t, args[:2][1])
	})
}

func TestRedisDoesNotTakeWhatSomebodyElseWroteForAStamp(t *testing.T) {
	withEveryClient(t, func(t *testing.T, f *redisfence.Fence, eval redisfence.Eval, line string) {
		_, err := eval(t.Context(), `return redis.call('SET', KEYS[1], ARGV[1])`, []string{redisfence.Key(line)}, []string{"what is this"})
		require.NoError(t, err)
		err = f.Pass(t.Context(), line, fence.Stamp{Token: 1})
		assert.ErrorContains(t, err, `the key of the fence holds "what is this", which is no stamp`)
		_, err = eval(t.Context(), `redis.call('DEL', KEYS[1]); return redis.call('LPUSH', KEYS[1], 1)`, []string{redisfence.Key(line)}, nil)
		require.NoError(t, err)
		assert.ErrorContains(t, f.Pass(t.Context(), line, fence.Stamp{Token: 1}), "WRONGTYPE")
	})
}

// In a cluster, the fence is where the data are.
func TestRedisKeysAreInOneSlot(t *testing.T) {
	tag := func(key string) string {
		_, rest, _ := strings.Cut(key, "{")
		within, _, _ := strings.Cut(rest, "}")
		return within
	}
	assert.Equal(t, "turnwise:fence:{orders/42}", redisfence.Key("orders/42"))
	assert.Equal(t, tag("{orders/42}:total"), tag(redisfence.Key("orders/42")))
}
