//go:build linux

package main_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var rounds = flag.Int("killed.rounds", 1, "how often each one is killed or stopped, on each service")

const (
	stop = syscall.SIGSTOP
	kill = syscall.SIGKILL
)

// killed are the rounds: who is killed or stopped, and the exit code of turnwise on a service with a TTL and on a
// directory; -1 means that turnwise itself was killed. A round that does not end by itself ends when the test kills what
// the command has started; until then the next one has to wait.
var killed = []struct {
	what      string
	do        func(r *running)
	ttl, file int  // 0: not tried there
	bySelf    bool // on a service with a TTL
}{
	{"turnwise is killed", func(r *running) { r.signal(kill) }, -1, -1, true},
	{"turnwise is stopped", func(r *running) { r.signal(stop) }, 70, 137, true},
	{"the command is killed", func(r *running) { r.command(kill) }, 137, 137, false},
	{"the command is stopped", func(r *running) { r.command(stop) }, 137, 137, false},
	{"all that runs is stopped", func(r *running) { r.family(stop) }, 137, 137, false},
	{"both are killed", func(r *running) { r.signal(kill); r.command(kill) }, -1, -1, true},
	{"both are stopped", func(r *running) { r.command(stop); r.signal(stop) }, 70, 137, true},
	{"turnwise is killed, the command stopped", func(r *running) { r.command(stop); r.signal(kill) }, -1, -1, true},
	{"turnwise is stopped, the command killed", func(r *running) { r.signal(stop); r.command(kill) }, 70, 137, true},
	{"turnwise is killed, all else stopped", func(r *running) { r.family(stop); r.signal(kill) }, -1, -1, true},
	{"the guardian is killed", func(r *running) { assert.NoError(r.t, syscall.Kill(r.guardian(), kill)) }, 137, 137, true},
	{"the guardian does not listen and is killed", func(r *running) {
		guardian := r.guardian()
		assert.NoError(r.t, syscall.Kill(guardian, stop))
		r.signal(syscall.SIGTERM)
		time.Sleep(100 * time.Millisecond)
		assert.NoError(r.t, syscall.Kill(guardian, kill))
	}, 137, 137, true},
	{"the guardian is stopped, all that it guards killed", func(r *running) {
		assert.NoError(r.t, syscall.Kill(r.guardian(), stop))
		r.family(kill) // zombies, as long as the guardian does not wait for them
	}, 137, 137, true},
}

// Whichever of turnwise, its guardian and the command is killed or stopped, the next one starts only when everything that
// the command has started is dead. The command ignores TERM, and has a child, a child in a session of its own and one after
// a double fork; all of them write their token to one log again and again. No smaller token may come after a greater one,
// because a fence would refuse it.
func TestNobodyStartsBeforeTheLastIsDead(t *testing.T) {
	t.Parallel()
	all := services
	if *rounds > 1 {
		all = slices.Concat(services, others)
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			url := s.at(t)
			for i, k := range killed {
				code, bySelf := k.ttl, k.bySelf
				if s.name == "file" { // only the guardian's end ends the command there
					code, bySelf = k.file, strings.Contains(k.what, "guardian")
				}
				if code == 0 {
					continue
				}
				t.Run(k.what, func(t *testing.T) {
					t.Parallel()
					l, lost := newLog(t), 0
					for done := 0; done < *rounds && !t.Failed(); {
						if l.round(t, url, fmt.Sprint("line/", i), k.do, code, bySelf) {
							done++
						} else if lost++; lost > 10+*rounds {
							t.Error("the machine stands still too often for this")
						}
					}
					t.Logf("%d rounds and %d without an answer in time, %d writes, %d by stale holders", *rounds, lost, l.lines, l.stale)
				})
			}
		})
	}
}

// When turnwise has to do the guardian's work, it spares what the shell had started before it became turnwise.
func TestWhatTheShellHadStartedOutlivesTheGuardian(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := `sleep 1000 & echo $! >before; exec "$0" lock -b "$1" a -- sh -c 'echo >ready; exec sleep 1000'`
	r := &running{t: t, Cmd: exec.Command("bash", "-c", script, filepath.Join(program, "turnwise"), "file://"+dir+"/locks")}
	r.Dir, r.Stderr = dir, &r.stderr
	r.WaitDelay = time.Second
	require.NoError(t, r.Start())
	t.Cleanup(func() { r.Process.Kill() })
	r.ready()
	text, err := os.ReadFile(filepath.Join(dir, "before"))
	require.NoError(t, err)
	before, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(before, kill) })
	guardian := slices.DeleteFunc(r.children(), func(pid int) bool { return pid == before })
	require.Len(t, guardian, 1)
	require.NoError(t, syscall.Kill(guardian[0], kill))
	assert.Equal(t, 137, r.code())
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", before))
	require.NoError(t, err, "it was killed")
	assert.NotContains(t, string(state), ") Z ", "it was killed")
}

// round is false when the service did not answer one of the two for as long as a session lasts, as on a machine that stands still:
// then its command may not have written anything. What was written must be in order all the same.
func (l *tokenLog) round(t *testing.T, url, line string, do func(r *running), code int, bySelf bool) bool {
	var lost []int
	if !strings.HasPrefix(url, "file:") {
		lost = []int{70, 71}
	}
	first := run(t, url, line, filepath.Join(program, "writer"), "family", l.path, "ready")
	first.log = l
	if !first.starts() {
		require.Contains(t, lost, first.code(), "its command does not start")
		l.check(t, 0, 1)
		return false
	}
	do(first)
	next := run(t, url, line, filepath.Join(program, "writer"), "short", l.path)
	if !bySelf {
		time.Sleep(300 * time.Millisecond)
		assert.Equal(t, 1, l.tokens(), "the next one has started beside what is left")
		first.family(kill)
		first.signal(syscall.SIGCONT)
	}
	last := next.code()
	assert.Contains(t, append(lost, 0), last)
	first.signal(syscall.SIGCONT)
	codes := []int{code}
	if code > 0 {
		codes = append(codes, lost...)
	}
	assert.Contains(t, codes, first.code())
	if last != 0 {
		l.check(t, 1, 2)
		return false
	}
	l.check(t, 2)
	return true
}

// tokenLog is what all of them write their tokens to.
type tokenLog struct {
	path         string
	read         int // it has been checked up to here
	lines, stale int
}

func newLog(t *testing.T) *tokenLog {
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	return &tokenLog{path: path}
}

// fresh returns what has been written in this round: token and process, again and again. Who is killed while it writes may have
// written a part of its record, up to the end of a page: that part is left out.
func (l *tokenLog) fresh() (fields []string) {
	text, _ := os.ReadFile(l.path)
	for record := range strings.Lines(string(text[l.read:])) {
		if f := strings.Fields(record); len(f) == 3 && f[2] == "." {
			fields = append(fields, f[:2]...)
		}
	}
	return fields
}

// A part of a record spoils neither that before it nor that after it.
func TestARecordThatWasCutShortIsLeftOut(t *testing.T) {
	l := newLog(t)
	require.NoError(t, os.WriteFile(l.path, []byte("\n7 41 .\n7 4\n42\n8 42 .\n8 42 ."), 0o600))
	l.check(t, 2)
	assert.Equal(t, 3, l.lines)
}

func (l *tokenLog) tokens() int {
	seen := map[string]bool{}
	for i, field := range l.fresh() {
		if i%2 == 0 {
			seen[field] = true
		}
	}
	return len(seen)
}

// check looks at what has been written since it did so before: in which order, and with how many tokens.
func (l *tokenLog) check(t *testing.T, tokens ...int) {
	newest := 0
	fields := l.fresh()
	for i := 0; i+1 < len(fields); i += 2 {
		token, err := strconv.Atoi(fields[i])
		require.NoError(t, err)
		l.lines++
		if token < newest {
			l.stale++
		}
		newest = max(newest, token)
	}
	if !assert.Zero(t, l.stale, "writes after the next one's") {
		t.Log("tokens in the order of their writes: ", runs(fields))
	}
	assert.Contains(t, tokens, l.tokens())
	st, err := os.Stat(l.path)
	require.NoError(t, err)
	l.read = int(st.Size())
}

// runs says how many writes in a row each token has.
func runs(fields []string) (text string) {
	for i, many := 0, 0; i+1 < len(fields) && len(text) < 1000; i += 2 {
		if many++; i+2 >= len(fields) || fields[i+2] != fields[i] {
			text += fmt.Sprintf("%s×%d ", fields[i], many)
			many = 0
		}
	}
	return text
}

// family sends a signal to the command and to all that it has started.
func (r *running) family(s syscall.Signal) {
	done := map[string]bool{}
	for i, field := range r.log.fresh() {
		if pid, _ := strconv.Atoi(field); i%2 == 1 && pid > 1 && !done[field] {
			done[field] = true
			_ = syscall.Kill(pid, s) // it may already be dead
		}
	}
}

// command sends a signal only to the command. A guardian that heard of turnwise's end may have killed it by then.
func (r *running) command(s syscall.Signal) {
	text, err := os.ReadFile(filepath.Join(r.Dir, "ready"))
	require.NoError(r.t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(r.t, err)
	if err := syscall.Kill(pid, s); err != syscall.ESRCH || s != kill {
		require.NoError(r.t, err)
	}
}

func (r *running) signal(s syscall.Signal) { _ = r.Process.Signal(s) }
