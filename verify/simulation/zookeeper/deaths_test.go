package zookeeper

import (
	"testing"
	"testing/synctest"
	"time"
)

// What only the dead leader has logged is forgotten, also by itself. What one other member has logged is agreed to, and so is
// what the leader's own client, or that member's, has been told.
func TestAMemberDiesOverAProposal(t *testing.T) {
	for stage, want := range []struct {
		made, answered, leads bool // the leader is the same
	}{
		Unspread:  {},
		Spread:    {made: true},
		Unheard:   {made: true},
		Untold:    {made: true, answered: true},
		Told:      {made: true, answered: true},
		Forgotten: {},
		Unmade:    {made: true, answered: true, leads: true},
	} {
		inBubble(t, three(3), func(t *testing.T, e *Ensemble) {
			leader := e.Leader()
			k, _ := speak(t, e, 2, "a", 20000, 0, nil, 0)
			k.asks(opCreate, create("/a", nil, openACL, 0))
			back := e.Doom(Stage(stage))
			said := k.asksLater(opCreate, create("/b", nil, openACL, 0))
			if answered := len(said) > 0 && <-said != "hung up"; answered != want.answered {
				t.Errorf("stage %d: answered: %v", stage, answered)
			}
			if up := leader.IsUp(); up != want.leads {
				t.Errorf("stage %d: the leader is up: %v", stage, up)
			}
			time.Sleep(8 * tick)
			if l := e.Leader(); l == nil || (l == leader) != want.leads {
				t.Fatalf("stage %d: this one leads: %v", stage, l)
			}
			back()
			time.Sleep(4 * tick)
			if made := children(e) == 2; made != want.made {
				t.Errorf("stage %d: it is made: %v", stage, made)
			}
			for _, m := range e.Members() {
				if m.Follow(everything); !m.Serves() || len(m.tree.nodes) != len(e.latest.nodes) {
					t.Errorf("stage %d: %v serves: %v, with %d nodes of %d", stage, m, m.Serves(), len(m.tree.nodes), len(e.latest.nodes))
				}
			}
		})
	}
}

// The news of a commit reaches the clients of one member only, and then those who have heard nothing know as much.
func TestWhoIsToldBeforeTheLeaderDiesIsToldTheTruth(t *testing.T) {
	inBubble(t, three(3), func(t *testing.T, e *Ensemble) {
		k, _ := speak(t, e, 0, "a", 20000, 0, nil, 0)
		defer e.Doom(Told)()
		if said := <-k.asksLater(opCreate, create("/a", nil, openACL, 0)); said == "hung up" {
			t.Fatal("its own member has not told it")
		}
		time.Sleep(6 * tick)
		if l := e.Leader(); l == nil || children(e) != 1 {
			t.Error("it is forgotten, or nobody leads", l, children(e))
		}
	})
}

// A machine that dies takes its last words with it. What the others had yet to hear of it, they never do.
func TestLastWordsAreLost(t *testing.T) {
	for kept := range 3 {
		cfg := three(3)
		cfg.Slow = true
		inBubble(t, cfg, func(t *testing.T, e *Ensemble) {
			leader := e.Leader()
			var talks []*talk
			for _, name := range []string{"a", "b"} {
				speaks := make(chan *talk)
				go func() {
					k, _ := speak(t, e, 2, name, 20000, 0, nil, 0)
					speaks <- k
				}()
				synctest.Wait()
				e.Settle()
				talks = append(talks, <-speaks)
			}
			talks[0].asksLater(opCreate, create("/a", nil, openACL, 0))
			talks[1].asksLater(opCreate, create("/b", nil, openACL, 0))
			var words []string
			for _, m := range e.way(leader, e.members[0]).queue {
				words = append(words, m.what)
			}
			leader.Crash(true, func(of int) int { return max(0, of-2+kept) })
			t.Log(words)
			e.Settle()
			e.Hasten()
			time.Sleep(8 * tick)
			if l := e.Leader(); l == nil || l == leader {
				t.Fatal("this one leads:", l)
			}
			leader.Start()
			time.Sleep(4 * tick)
			if children(e) != kept || !leader.Serves() {
				t.Errorf("%d proposals have arrived, and %d are made", kept, children(e))
			}
		})
	}
}

// Numbers begin where they were left, and stick at their end unless the servers are old.
func TestNumbersNearTheirEnd(t *testing.T) {
	for _, old := range []bool{false, true} {
		cfg := Config{Members: 3, Numbered: []string{"/a"}, Numbers: 1<<31 - 2}
		if old {
			cfg.Version = Version{3, 5, 10}
		}
		inBubble(t, cfg, func(t *testing.T, e *Ensemble) {
			k, _ := speak(t, e, 0, "a", 20000, 0, nil, 0)
			for range 4 {
				k.asks(opCreate, create("/a/n", nil, openACL, flagSequential))
			}
			d, _ := e.Look("/a")
			want := []string{"/a/n2147483646", "/a/n2147483647"}
			if old {
				want = append(want, "/a/n-2147483648", "/a/n-2147483647")
			}
			if len(d.Children) != len(want) {
				t.Fatal(d.Children)
			}
			for i, c := range d.Children {
				if c.Path != want[i] {
					t.Errorf("%s, not %s", c.Path, want[i])
				}
			}
			if e.Restore(1000, 0); len(e.Below("/a")) != 0 || len(e.log) == 0 {
				t.Error("a backup is older than the life before, or newer", e.Below("/a"))
			}
		})
	}
}
