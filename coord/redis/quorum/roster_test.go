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
	if before := got.before(); before == nil || len(before.seats) != 4 {
		t.Errorf("before there were %+v", before)
	} else if l, has := before.seatOf(strings.Repeat("a", 16)); !has || l.since != 1 {
		t.Errorf("before there were %+v", before)
	}
	// An earlier version has gone on from that, and left as part of the address what it did not know.
	f[0] = "00000006"
	if later := parseRoster(r.group, f[0], f[1]); later == nil || later.before() != nil || later.addresses() != got.addresses() {
		t.Errorf("after an earlier version: %+v", later)
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

// A server is given what a majority of those before it know. The one that it takes the place of is one of them, if it has been told; one
// that was listed and not filled is none, nor is who has forgotten since.
func TestWhoAServerIsFilledFrom(t *testing.T) {
	first := &roster{group: "0123456789abcdef", term: 1}
	for _, id := range []string{"a", "b", "c"} {
		first.seats = append(first.seats, listed{memory: id, since: 1, address: id + ":1"})
	}
	replaced, added := first.next("d", "d:1", "c"), first.next("d", "d:1", "")
	again := replaced.next("c", "c:1", "b").next("e", "e:1", "c") // c came back, was not filled, and is replaced
	in := func(id string, r *roster) member {
		return member{acceptor: &acceptor{Server: &server.Server{Address: id + ":1"}}, memory: server.Called(id), roster: r}
	}
	for name, c := range map[string]struct {
		r      *roster
		filled string
		all    []member
		tells  bool
		want   string
		enough int
	}{
		"added":                   {added, "d", []member{in("a", added), in("b", added), in("x", nil), in("d", nil)}, true, "a b", 2},
		"replaced":                {replaced, "d", []member{in("a", replaced), in("x", nil), in("c", replaced), in("d", nil)}, true, "a c", 2},
		"some are told":           {replaced, "d", []member{in("a", first), in("b", first), in("c", replaced), in("d", nil)}, true, "a b c", 2},
		"some cannot be told":     {replaced, "d", []member{in("a", first), in("b", replaced), in("c", first), in("d", nil)}, false, "b", 2},
		"one was not filled":      {again, "e", []member{in("a", again), in("c", replaced), in("d", again), in("e", nil)}, true, "a d", 2},
		"others were listed then": {again, "d", []member{in("a", again), in("c", again), in("d", nil), in("e", again)}, true, "a e", 2},
	} {
		var filled *member
		for i := range c.all {
			if c.all[i].memory.ID() == c.filled {
				filled = &c.all[i]
			}
		}
		from, enough := sources(c.r, filled, c.all, func(*member) error {
			if c.tells {
				return nil
			}
			return errBusy
		})
		var names []string
		for _, a := range from {
			m, _ := a.seat.Current()
			names = append(names, m.ID())
		}
		if got := strings.Join(names, " "); got != c.want || enough != c.enough {
			t.Errorf("%s: %d of %s, want %d of %s", name, enough, got, c.enough, c.want)
		}
	}
}
