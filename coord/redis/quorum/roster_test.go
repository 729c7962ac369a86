package quorum

import (
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord/redis/internal/server"
)

func FuzzRoster(f *testing.F) {
	r := &roster{group: "0123456789abcdef", term: 3}
	for _, a := range []string{"h:1", "unix:///a b,c", "[::1]:6379"} {
		r = r.next(strings.Repeat("a", 16)+a[:1], a, "")
	}
	f.Add(r.group, strings.Fields(r.String())[0], strings.Fields(r.String())[1])
	f.Add(r.group, "00000001", "a.1@b,c.1@d")
	f.Fuzz(func(t *testing.T, group, term, seats string) {
		r := parseRoster(group, term, seats)
		if r == nil {
			return
		}
		if len(r.seats) < minServers || len(r.seats) > maxServers || len(r.stamp()) != groupSize+termSize {
			t.Fatalf("%+v", r)
		}
		again := strings.Fields(r.String())
		if len(again) != 2 || again[1] != "" && parseRoster(group, again[0], again[1]) == nil {
			t.Errorf("%q is read, and what it is written as is not: %q", seats, again)
		}
	})
}

// What is written is read as it was, whatever the addresses are.
func TestARosterIsReadAsItWasWritten(t *testing.T) {
	r := &roster{group: "0123456789abcdef"}
	for i, a := range []string{"h:1", "unix:///a b,c@d.e", strings.Repeat("long", 100), "h:4"} {
		r = r.next(strings.Repeat(string(rune('a'+i)), 16), a, "")
	}
	r = r.next(strings.Repeat("f", 16), "h:9", strings.Repeat("a", 16))
	f := strings.Fields(r.String())
	got := parseRoster(r.group, f[0], f[1])
	if got == nil || got.String() != r.String() || got.term != 5 || len(got.seats) != 4 || !got.isOf(r) {
		t.Fatalf("%+v, and it was %+v", got, r)
	}
	if l, ok := got.seatAt("unix:///a b,c@d.e"); !ok || l.since != 2 {
		t.Errorf("%+v", l)
	}
	if l, ok := got.seatAt(strings.Repeat("long", 100)); !ok || l.since != 3 {
		t.Errorf("%+v", l)
	}
	if _, ok := got.seatOf(strings.Repeat("a", 16)); ok || parseRoster(r.group, f[0], strings.Join(strings.Split(f[1], ",")[:2], ",")) != nil {
		t.Error("two servers are a group")
	}
}

// Servers that have moved on to a later term stand for the group, whichever of them answers first.
func TestTheLatestRosterOfAGroupCounts(t *testing.T) {
	r := &roster{group: "0123456789abcdef"}
	for _, id := range []string{"a", "b", "c"} {
		r = r.next(id, id+":1", "")
	}
	later := r.next("d", "d:1", "c")
	in := func(id string, r *roster) member { return member{memory: server.Called(id), roster: r} }
	all := []member{in("a", r), in("b", later), in("d", later)}
	for range all {
		if got := rosterOf(all); got != later {
			t.Errorf("%v stands for the group, with answers in this order: %v", got, all)
		}
		all = append(all[1:], all[0])
	}
}
