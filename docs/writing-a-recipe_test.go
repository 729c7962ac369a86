package docs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/recipes/mutex"
)

// What follows is shown in writing-a-recipe.md.

// Schema lets processes that know the same version of a schema work at the same time, and no others beside them.
type Schema struct {
	client  *coord.Client
	name    string
	version int
}

func NewSchema(c *coord.Client, name string, version int) *Schema { return &Schema{c, name, version} }

// Use waits until all who came earlier with another version have left.
func (s *Schema) Use(ctx context.Context) (*coord.Hold, error) {
	return s.client.Acquire(ctx, s.name, s.kind(), nil, s.rule())
}

// Do runs fn while the version may be used. See coord.Do for the error.
func (s *Schema) Do(ctx context.Context, fn func(ctx context.Context, h *coord.Hold) error) error {
	return coord.Do(ctx, s.Use, fn)
}

func (s *Schema) kind() string { return fmt.Sprintf("use%d", s.version) }

func (s *Schema) rule() coord.Rule {
	return coord.Rule{
		Sight:   coord.Sight{Nearest: coord.All},
		WaitFor: sameVersion,
		Granted: fmt.Sprintf("using%d", s.version),
	}
}

// sameVersion is the rule. Who has to wait waits for the one right ahead to go, or to say that it has its turn.
func sameVersion(me coord.Node, ahead []coord.Node) []coord.Node {
	for _, n := range ahead {
		if version(n.Kind) != version(me.Kind) {
			return ahead[len(ahead)-1:]
		}
	}
	return nil
}

// version is what a kind says, or "?" if it is not one of ours.
func version(kind string) string {
	for _, form := range []string{"using", "use"} {
		if v, ok := strings.CutPrefix(kind, form); ok {
			return v
		}
	}
	return "?"
}

func TestTheRuleOfSchemaKeepsTheLaws(t *testing.T) {
	if err := checkRules(4, map[string]coord.Rule{
		"use1": NewSchema(nil, "", 1).rule(),
		"use2": NewSchema(nil, "", 2).rule(),
		"lock": coord.RuleOf("lock"), // somebody else's
	}); err != nil {
		t.Error(err)
	}
}

// checkRules tries rules, by the kinds that join, in all lines of up to so many nodes and one more.
func checkRules(most int, rules map[string]coord.Rule) error {
	free := func(me coord.Node, ahead []coord.Node) bool { return len(rules[me.ID].WaitFor(me, ahead)) == 0 }
	var try func(line []coord.Node) error
	try = func(line []coord.Node) error {
		for kind, rule := range rules {
			me := coord.Node{ID: kind, Kind: kind, Token: coord.Token(len(line))} // the ID is what it joined as
			wait := rule.WaitFor(me, line)
			for left := range parts(line) {
				// Whoever is waited for has gone, or it is his turn now and he says so.
				stirs := slices.ContainsFunc(wait, func(w coord.Node) bool {
					is := func(n coord.Node) bool { return n.Token == w.Token }
					was, now := slices.IndexFunc(line, is), slices.IndexFunc(left, is)
					return now < 0 || rules[w.ID].Granted != "" && !free(w, line[:was]) && free(w, left[:now])
				})
				switch isFree := free(me, left); {
				case len(wait) == 0 && !isFree:
					return fmt.Errorf("behind %v it is the turn of %s, and behind %v it is not", kinds(line), kind, kinds(left))
				case len(wait) > 0 && isFree && !stirs:
					return fmt.Errorf("behind %v %s waits for %v, and sleeps on behind %v", kinds(line), kind, kinds(wait), kinds(left))
				}
			}
			as := []string{kind}
			if len(wait) == 0 && rule.Granted != "" {
				as = append(as, rule.Granted)
			}
			for _, me.Kind = range as {
				if len(line) == most {
					break
				}
				if err := try(append(slices.Clone(line), me)); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return try(nil)
}

func kinds(line []coord.Node) (all []string) {
	for _, n := range line {
		all = append(all, n.Kind)
	}
	return all
}

// parts yields what may be left of a line when some have gone.
func parts(line []coord.Node) iter.Seq[[]coord.Node] {
	return func(yield func([]coord.Node) bool) {
		for stay := range 1 << len(line) {
			var left []coord.Node
			for i, n := range line {
				if stay>>i&1 == 1 {
					left = append(left, n)
				}
			}
			if !yield(left) {
				return
			}
		}
	}
}

// What is shown finds rules that would not do.
func TestRulesThatBreakTheLawsAreFound(t *testing.T) {
	silent := NewSchema(nil, "", 1).rule()
	silent.Granted = ""
	for name, c := range map[string]struct {
		rule coord.Rule
		says string
	}{
		"a turn that is taken back": {coord.Rule{WaitFor: func(_ coord.Node, ahead []coord.Node) []coord.Node {
			if len(ahead) == 2 {
				return nil
			}
			return ahead
		}}, "and behind"},
		"waits for the wrong one": {coord.Rule{WaitFor: func(_ coord.Node, ahead []coord.Node) []coord.Node {
			if len(ahead) < 2 {
				return nil
			}
			return ahead[:1] // two at a time: the second may go before the first
		}}, "sleeps on"},
		"says nothing": {silent, "sleeps on"},
	} {
		err := checkRules(3, map[string]coord.Rule{"use1": c.rule, "lock": coord.RuleOf("lock")})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVersionsDoNotMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := mem.New()
		defer service.Close()
		ctx := t.Context()
		var old []*coord.Hold
		for range 2 { // both at once
			h, err := NewSchema(service.Client(), "orders", 41).Use(ctx)
			if err != nil {
				t.Fatal(err)
			}
			old = append(old, h)
		}
		entered := make(chan int, 4)
		var all sync.WaitGroup
		for _, v := range []int{42, 42, 41, 42} {
			all.Go(func() {
				if err := NewSchema(service.Client(), "orders", v).Do(ctx, func(context.Context, *coord.Hold) error {
					entered <- v
					time.Sleep(time.Minute)
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // until it stands in line
		}
		for _, h := range old {
			if len(entered) > 0 {
				t.Error("a new version works beside an old one")
			}
			h.Release()
		}
		time.Sleep(100 * time.Millisecond)
		if len(entered) != 2 {
			t.Errorf("%d of the new version work, and not 2: nobody overtakes the old one that waits", len(entered))
		}
		all.Wait()
		if got := []int{<-entered, <-entered, <-entered, <-entered}; !slices.Equal(got, []int{42, 42, 41, 42}) {
			t.Errorf("the order was %v", got)
		}
	})
}

func TestWhoIsLostLetsTheNextVersionIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := mem.New()
		defer service.Close()
		lost := service.Client()
		old, err := NewSchema(lost, "orders", 41).Use(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		service.Partition(lost)
		h, err := NewSchema(service.Client(), "orders", 42).Use(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer h.Release()
		if err := old.Err(); !errors.Is(err, coord.ErrLost) {
			t.Errorf("two versions at once: %v", err)
		}
	})
}

// What the page tells of traps.
func TestTheTrapsOfARecipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := mem.New()
		defer service.Close()
		client := service.Client()
		first, err := NewSchema(client, "orders", 41).Use(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		inside := first.Context()
		if _, err := NewSchema(client, "orders", 41).Use(inside); !errors.Is(err, coord.ErrHeld) {
			t.Errorf("within a hold, the same kind: %v", err)
		}
		if _, err := NewSchema(client, "orders", 42).Use(inside); !errors.Is(err, coord.ErrUpgrade) {
			t.Errorf("within a hold, another kind: %v", err)
		}
		if _, err := mutex.New(service.Client(), "orders").TryLock(t.Context()); !errors.Is(err, coord.ErrBusy) {
			t.Errorf("a mutex of the same name: %v", err)
		}
		second, err := NewSchema(service.Client(), "orders", 41).Use(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if second.Token() <= first.Token() {
			t.Error("the second has no greater token")
		}
		if nodes, err := client.Line(t.Context(), "orders"); err != nil || len(nodes) != 2 || !nodes[0].Holds || nodes[1].Holds {
			t.Errorf("the line is shown as %v (%v)", nodes, err)
		}
		if _, err := client.Acquire(t.Context(), "orders", "use-41", nil, coord.RuleOf("lock")); !errors.Is(err, coord.ErrInvalid) {
			t.Errorf("a kind with a hyphen: %v", err)
		}
	})
}

// A rule may wait for somebody further ahead, and is told of it at once on the stores as well.
func TestWhoWaitsForSomebodyFurtherAheadIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := mem.New()
		defer service.Close()
		skip := coord.Rule{Sight: coord.Sight{Nearest: coord.All}, WaitFor: func(me coord.Node, ahead []coord.Node) []coord.Node {
			i := slices.IndexFunc(ahead, func(n coord.Node) bool { return n.Kind == me.Kind })
			if i < 0 {
				return nil
			}
			return ahead[i : i+1]
		}}
		var holds []*coord.Hold
		for _, tenant := range []string{"a", "b"} {
			h, err := service.Client().Acquire(t.Context(), "tenants", tenant, nil, skip)
			if err != nil {
				t.Fatal(err)
			}
			holds = append(holds, h)
		}
		entered := make(chan error, 1)
		go func() {
			h, err := service.Client().Acquire(t.Context(), "tenants", "a", nil, skip)
			if err == nil {
				defer h.Release()
			}
			entered <- err
		}()
		synctest.Wait()
		holds[0].Release()
		began := time.Now()
		if err := <-entered; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		holds[1].Release()
	})
}
