package trace

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
)

var epoch = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// witness is a process with an invented trace. Times are in milliseconds.
type witness struct {
	name, machine string
	wrong         int // by how much its machine's clock is ahead
	n             int64
	text          strings.Builder
}

func on(machine, name string) *witness { return &witness{name: name, machine: machine} }

func (w *witness) says(at int, what string, token int, kind string, more ...func(*record)) *witness {
	w.n++
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	r := record{V: version, Time: epoch.Add(ms(at + w.wrong)), Event: what, Service: "prod", Line: "orders",
		Token: coord.Token(token), Kind: kind, Host: w.machine, PID: int(w.name[0]),
		By: w.machine + w.name, N: w.n, Clock: w.machine, Ticks: int64(ms(at))}
	for _, m := range more {
		m(&r)
	}
	line, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	w.text.Write(append(line, '\n'))
	return w
}

// had adds a whole turn.
func (w *witness) had(token int, kind string, from, to int, more ...func(*record)) *witness {
	return w.says(from, granted, token, kind, more...).says(to, released, token, kind, more...)
}

func waitedFor(ms int) func(*record) {
	return func(r *record) { r.Waited = time.Duration(ms) * time.Millisecond }
}

func inLine(line string) func(*record)       { return func(r *record) { r.Line = line } }
func atService(service string) func(*record) { return func(r *record) { r.Service = service } }

func verdict(t *testing.T, all ...*witness) *Verdict {
	t.Helper()
	a := NewAudit(DefaultSkew)
	for _, w := range all {
		require.NoError(t, a.Read(w.name+".jsonl", strings.NewReader(w.text.String())))
	}
	return a.Verdict()
}

func faults(v *Verdict) (all []Fault) {
	for _, f := range v.Wrong {
		all = append(all, f.What)
	}
	return all
}

func TestWhatIsWrongIsFoundAndWhatIsNotIsNot(t *testing.T) {
	type traces []*witness
	a := func() *witness { return on("m", "a") }
	b := func() *witness { return on("m", "b") }
	c := func() *witness { return on("m", "c") }
	far := func() *witness { return on("n", "b") }
	begun := func(token, at int) *witness { return a().says(at, granted, token, "lock", waitedFor(at)) }
	second := func() *witness { return b().had(2, "lock", 11, 20) }
	downgraded := func() *witness {
		return a().says(0, granted, 1, "W").says(5, amended, 1, "R").says(10, released, 1, "R")
	}
	many := func() *witness { return b().says(5, granted, 2, "Q40of100").says(20, released, 2, "G40of100") }
	var nothing []Fault
	two, twice, back := []Fault{TwoAtOnce}, []Fault{GivenTwice}, []Fault{WentBack}
	for name, c := range map[string]struct {
		traces
		want []Fault
	}{
		"one after the other":   {traces{a().had(1, "lock", 0, 10), second()}, nothing},
		"two at once":           {traces{a().had(1, "lock", 0, 12), second()}, two},
		"of one process":        {traces{a().had(1, "lock", 0, 10).had(2, "lock", 9, 20)}, two},
		"one within the other":  {traces{a().had(1, "lead", 0, 99), second()}, two},
		"in two lines":          {traces{a().had(1, "lock", 0, 12, inLine("other")), second()}, nothing},
		"at two services":       {traces{a().had(1, "lock", 0, 12, atService("other")), second()}, nothing},
		"a long time ago":       {traces{a().had(1, "lock", 0, 1e6).had(3, "lock", 1e6+2, 1e6+4), second()}, two},
		"several meet one":      {traces{a().had(1, "lock", 0, 99).had(3, "lock", 30, 40), second()}, []Fault{TwoAtOnce, TwoAtOnce}},
		"a mutex and a reader":  {traces{a().had(1, "lock", 0, 10), b().had(2, "R", 9, 20)}, two},
		"readers":               {traces{a().had(1, "R", 0, 10), b().had(2, "R", 5, 20)}, nothing},
		"a writer and a reader": {traces{a().had(1, "W", 0, 10), b().had(2, "R", 5, 20)}, two},
		"a reader and a writer": {traces{a().had(1, "R", 0, 10), b().had(2, "W", 5, 20)}, two},

		"a reader beside one that was a writer":       {traces{downgraded(), b().had(2, "R", 6, 20)}, nothing},
		"a reader beside one that is a writer yet":    {traces{downgraded(), b().had(2, "R", 4, 20)}, two},
		"a writer beside one that is a reader by now": {traces{downgraded(), b().had(2, "W", 6, 20)}, two},
		"since when it was a reader is missing": {traces{
			a().says(0, granted, 1, "W").says(10, released, 1, "R"), b().had(2, "R", 4, 20)}, nothing},

		"permits that fit": {traces{
			a().had(1, "S1of3", 0, 10), b().had(2, "S2of3", 5, 20), c().had(3, "S1of3", 12, 20)}, nothing},
		"too many permits": {traces{
			a().had(1, "S1of3", 0, 10), b().had(2, "S2of3", 5, 20), c().had(3, "S1of3", 7, 20)}, two},
		"permits of which there are fewer by now": {traces{
			a().had(1, "S1of2", 0, 10), b().had(2, "S1of3", 5, 20), c().had(3, "S1of3", 7, 20)}, two},
		"many permits":             {traces{a().had(1, "Q60of100", 0, 10), many(), c().had(3, "Q60of100", 11, 20)}, nothing},
		"too many of many permits": {traces{a().had(1, "Q60of100", 0, 10), many(), c().had(3, "Q1of100", 9, 20)}, two},
		"a permit beside a mutex":  {traces{a().had(1, "lock", 0, 10), b().had(2, "S1of3", 5, 20)}, two},

		"out of turn":          {traces{a().had(1, "lock", 30, 40, waitedFor(30)), second()}, []Fault{OutOfTurn}},
		"readers in any order": {traces{a().had(1, "R", 30, 40, waitedFor(30)), b().had(2, "R", 10, 20)}, nothing},
		"out of turn for a permit": {traces{
			a().had(1, "S1of3", 0, 10), b().had(2, "S3of3", 11, 20, waitedFor(10)), c().had(3, "S1of3", 5, 7)}, []Fault{OutOfTurn}},

		"lost before the next": {traces{
			begun(1, 0).says(10, lost, 1, "lock").says(30, released, 1, "lock"), second()}, nothing},
		"lost after the next":        {traces{begun(1, 0).says(15, lost, 1, "lock"), second()}, two},
		"lost before it was given":   {traces{begun(1, 15).says(5, lost, 1, "lock"), second()}, nothing},
		"no end":                     {traces{begun(1, 0), second()}, nothing},
		"no beginning":               {traces{a().says(15, released, 1, "lock"), second()}, two},
		"no beginning of the second": {traces{a().had(1, "lock", 0, 15), b().says(20, released, 2, "lock")}, nothing},

		"a token twice":          {traces{a().had(1, "lock", 0, 10), b().had(1, "lock", 11, 20, waitedFor(5))}, twice},
		"a token twice, at once": {traces{a().had(1, "lock", 0, 10), b().had(1, "lock", 5, 20)}, []Fault{GivenTwice, TwoAtOnce}},
		"a token twice, to one":  {traces{a().had(1, "lock", 0, 10).had(1, "lock", 11, 20)}, twice},
		"tokens went back": {traces{
			a().had(100, "lock", 0, 10).had(200, "lock", 11, 20), b().had(1, "lock", 30, 40).had(2, "lock", 50, 60)}, back},
		"tokens went back under a holder": {traces{
			a().had(100, "lock", 0, 35), b().had(1, "lock", 30, 40).had(2, "lock", 50, 60)}, []Fault{WentBack, TwoAtOnce}},
		"tokens went back, and the holder does not know it yet": {traces{
			a().had(100, "lock", 0, 35), b().says(30, granted, 1, "lock")}, back},
		"tokens went back, and one was lost before it was given": {traces{
			a().had(100, "lock", 0, 1), b().had(1, "lock", 10, 30),
			c().says(20, granted, 2, "lock", waitedFor(20)).says(5, lost, 2, "lock")}, back},
		"tokens went back, but not behind the last": {traces{
			a().had(0x300, "R", 0, 10).had(0x100, "R", 11, 20, waitedFor(11)), b().had(0x200, "R", 30, 40)}, back},
		"a reader steps into a place that others asked for": {traces{
			a().had(0x201, "R", 0, 10).had(0x102, "R", 11, 20)}, nothing},
		"a reader steps into a place that somebody asked for who gave up": {traces{
			a().had(0x200, "R", 0, 10), b().had(0x101, "R", 11, 20)}, nothing},
		"a smaller token, asked for before": {traces{a().had(2, "R", 5, 10), b().had(1, "R", 6, 20, waitedFor(4))}, nothing},

		"a rule of one's own":            {traces{a().had(1, "up", 0, 10), b().had(2, "down", 5, 20)}, nothing},
		"a token of a rule of one's own": {traces{a().had(1, "up", 0, 10), b().had(1, "up", 5, 20)}, twice},

		"two machines, in doubt": {traces{a().had(1, "lock", 0, 1000), far().had(2, "lock", 100, 2000)}, nothing},
		"two machines":           {traces{a().had(1, "lock", 0, 5000), far().had(2, "lock", 100, 2000)}, two},
		"two machines, tokens went back": {traces{
			a().had(9, "lock", 0, 1), c().had(7, "lock", 3000, 3001), far().had(8, "lock", 2000, 2001)}, back},
		"two machines, tokens in doubt": {traces{a().had(9, "lock", 0, 1), far().had(8, "lock", 900, 901)}, nothing},
		"a clock that is set back":      {traces{a().had(1, "lock", 0, 5000), setBack(10000).had(2, "lock", 5001, 6000)}, nothing},
		"a clock that is set on":        {traces{a().had(1, "lock", 0, 5000), setBack(-10000).had(2, "lock", 4000, 6000)}, two},
	} {
		t.Run(name, func(t *testing.T) {
			v := verdict(t, c.traces...)
			assert.Equal(t, c.want, faults(v), "%v\n%v", v.Wrong, v)
			// Neither the order of the files nor repetition makes a difference.
			var again []*witness
			for i := len(c.traces) - 1; i >= 0; i-- {
				again = append(again, c.traces[i])
			}
			assert.ElementsMatch(t, c.want, faults(verdict(t, append(again, c.traces...)...)))
		})
	}
}

// setBack is a process on machine m after its clock was set back.
func setBack(ms int) *witness {
	w := on("m", "s")
	w.wrong = -ms
	return w
}

func TestTheVerdictSaysWhoAndWhere(t *testing.T) {
	v := verdict(t, on("m", "a").had(1, "lock", 0, 10), on("m", "b").says(0, opened, 0, "").had(2, "lock", 9, 20))
	require.Len(t, v.Wrong, 1)
	assert.Equal(t, "two at once: line orders of prod: m/98 was let in with token 2 as lock at "+
		"2026-11-22T12:00:00.009000Z (b.jsonl:2) before m/97 with token 1 as lock, which had it until "+
		"2026-11-22T12:00:00.010000Z (a.jsonl:2), 980µs longer at least", v.Wrong[0].String())
	assert.Equal(t, "2 turns in 1 line of 2 processes: 1 thing wrong", v.String())
}

func TestTheVerdictSaysWhatWasNotJudged(t *testing.T) {
	a := NewAudit(0)
	w := on("m", "a").says(0, granted, 1, "lock")
	w.n += 7
	w.says(5, released, 3, "lock").had(4, "up", 6, 8)
	require.NoError(t, a.Read("a", strings.NewReader(w.text.String()+`{"v":1,"time":"2026-`)))
	v := a.Verdict()
	assert.Empty(t, v.Wrong)
	assert.Equal(t, `2 turns in 1 line of 1 process: nothing wrong
1 turn without an end in the traces, as when a process is killed: judged by the beginning alone
1 turn without a beginning in the traces: judged by the end alone
1 turn of kinds that no recipe has: judged by the token alone
7 records missing, of 1 client
1 line that cannot be read, the first at a:5: no line of a trace`, v.String())
}

func TestWhatIsReadTwiceHidesNothingThatIsMissing(t *testing.T) {
	w := on("m", "a").had(1, "lock", 0, 10)
	w.n += 3
	w.had(2, "lock", 11, 20)
	a := NewAudit(0)
	for _, file := range []string{"a", "a copy"} {
		require.NoError(t, a.Read(file, strings.NewReader(w.text.String())))
	}
	assert.Contains(t, a.Verdict().String(), "3 records missing, of 1 client")
}

// A user who gives one service two names sees that here.
func TestTheVerdictNamesTheServices(t *testing.T) {
	v := verdict(t, on("m", "a").had(1, "lock", 0, 10), on("m", "b").had(1, "lock", 9, 20, atService("test")))
	assert.Equal(t, "2 turns in 2 lines of 2 processes: nothing wrong\n"+
		"2 services that have nothing to do with each other: prod, test", v.String())
}

func TestWhatIsNoTraceIsRefused(t *testing.T) {
	err := NewAudit(0).Read("notes.txt", strings.NewReader("\nhello\nworld\n"))
	assert.EqualError(t, err, "notes.txt is no trace: line 2: no line of a trace")
	assert.NoError(t, NewAudit(0).Read("empty", strings.NewReader("\n")))
	err = NewAudit(0).Read("new", strings.NewReader(`{"v":2,"n":1}`))
	assert.ErrorContains(t, err, "written by a newer turnwise")
}

func TestALineThatIsTooLongIsPassedOver(t *testing.T) {
	a := NewAudit(0)
	w := on("m", "a").had(1, "lock", 0, 10)
	require.NoError(t, a.Read("a", strings.NewReader(strings.Repeat("x", 3*longest)+"\n"+w.text.String())))
	assert.Equal(t, 1, a.Verdict().Turns)
}

// One process dies in the middle of a line, and another writes to the same file next.
func TestALineThatWasCutShortSpoilsNotTheNext(t *testing.T) {
	a, w := NewAudit(0), on("m", "a").had(1, "lock", 0, 10)
	text := w.text.String()
	for _, at := range []int{1, 7, 40, 100, 200} {
		require.NoError(t, a.Read("a", strings.NewReader(text[:at]+on("m", "b").had(2, "lock", 5, 20).text.String())))
	}
	require.NoError(t, a.Read("a", strings.NewReader(text)))
	v := a.Verdict()
	assert.Equal(t, []Fault{TwoAtOnce}, faults(v))
	assert.Empty(t, v.Unjudged)
}

func TestManyTurnsAreJudgedInNoTime(t *testing.T) {
	a := NewAudit(DefaultSkew)
	const n = 20_000
	var waits [8]*witness
	for i := range waits {
		waits[i] = on("m", fmt.Sprint(i))
	}
	for i := range n {
		kind := []string{"R", "lock", "S1of100"}[i%3]
		w := waits[i%len(waits)]
		w.had(i/3+1, kind, 10*i, 10*i+9, inLine(kind))
	}
	began := time.Now()
	for _, w := range waits {
		require.NoError(t, a.Read(w.name, strings.NewReader(w.text.String())))
	}
	read := time.Since(began)
	v := a.Verdict()
	assert.Empty(t, v.Wrong)
	assert.Equal(t, n, v.Turns)
	t.Log("read in", read, "judged in", time.Since(began)-read)
}
