package redis

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

const defaultQuorumRoot = "turnwise-quorum:"

// OpenQuorum returns a store in several Redis or Valkey servers, as a rule three or five, at addresses as [Open] takes them.
// The servers know nothing of one another: no replicas, no sentinels, no cluster. All processes must name the same ones.
//
// The first process to open them founds the group; for that, all servers must be there and empty. Later more than half must
// be there. A server that has forgotten something does not count until it is healed; see [Quorum.Heal]. If too few are
// there, OpenQuorum keeps trying until ctx ends or, if ctx has no deadline, for 30 s.
func OpenQuorum(ctx context.Context, addresses []string, opts ...Option) (*Quorum, error) {
	c, err := configure(append([]Option{WithRoot(defaultQuorumRoot)}, opts...))
	if err != nil {
		return nil, err
	}
	if len(addresses) < 3 || len(addresses) > 9 {
		return nil, pkg.Invalid("a quorum of %d: take three or five, so that one or two may be lost", len(addresses))
	}
	ctx, cancel := driverkit.BoundConnect(ctx)
	defer cancel()
	me := register.NewVersion()
	q := &Quorum{
		root:      c.root,
		log:       c.Log,
		me:        hex.EncodeToString(me[:]),
		mine:      make(map[string]promised),
		open:      make(map[register.Version]struct{}),
		turns:     make(map[string]*acceptor),
		healAfter: healAfter,
	}
	q.life, q.end = context.WithCancel(context.Background())
	for _, address := range addresses {
		a, err := newAcceptor(ctx, address, c)
		if err != nil {
			q.Close()
			return nil, err
		}
		q.all = append(q.all, a)
	}
	if err := pkg.Open(ctx, "a quorum", c.Log, func(ctx context.Context) error { return atOpening(q.assemble(ctx)) }); err != nil {
		q.Close()
		return nil, err
	}
	return q, nil
}

func newAcceptor(ctx context.Context, address string, c config) (*acceptor, error) {
	option, name, err := dialOption(address, c)
	if err != nil {
		return nil, err
	}
	if option.Sentinel.MasterSet != "" {
		return nil, pkg.Invalid("%s: behind sentinels another Redis takes over that may lack votes: name one Redis itself", name)
	}
	client, cut, err := dial(ctx, option, new(atomic.Bool))
	if err != nil {
		return nil, pkg.Unopened(name, atOpening(explain(err)))
	}
	s := newStore(client, c)
	s.cut, s.release = cut, client.Close
	return &acceptor{Store: s, address: name, checking: make(chan struct{}, 1), member: strings.TrimSuffix(c.root, ":") + ".member"}, nil
}

// ready checks the server once, when it is reached for the first time.
func (a *acceptor) ready(ctx context.Context) error {
	select {
	case a.checking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-a.checking }()
	if a.checked {
		return nil
	}
	err := a.check(ctx)
	a.checked = err == nil
	return err
}

// member is what is known of an acceptor.
type member struct {
	*acceptor
	memory, group string // group: it votes there
	since         time.Duration
	err           error
}

// survey asks all acceptors for their membership, until enough says that it has heard enough.
func (q *Quorum) survey(ctx context.Context, enough func([]member) bool) ([]member, error) {
	answers := make(chan member, len(q.all))
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil, storekit.ErrClosed
	}
	for _, a := range q.all {
		q.running.Go(func() {
			ctx, cancel := context.WithTimeout(q.life, dialTimeout)
			defer cancel()
			m := member{acceptor: a}
			if m.err = a.ready(ctx); m.err == nil {
				m.memory, m.group, m.since, m.err = a.membership(ctx)
			}
			if m.err != nil {
				m.err = fmt.Errorf("%s: %w", a.address, explain(m.err))
			}
			answers <- m
		})
	}
	q.mu.Unlock()
	var all []member
	for len(all) < len(q.all) && !enough(all) {
		select {
		case m := <-answers:
			all = append(all, m)
		case <-ctx.Done():
			return all, ctx.Err()
		}
	}
	return all, nil
}

// groupOf returns the group that a majority votes in, if any.
func (q *Quorum) groupOf(all []member) (group string) {
	count := make(map[string]int)
	for _, m := range all {
		if m.err == nil && m.group != "" {
			if count[m.group]++; count[m.group] >= q.majority() {
				return m.group
			}
		}
	}
	return ""
}

// assemble finds the group that the acceptors belong to, or founds one.
func (q *Quorum) assemble(ctx context.Context) error {
	all, err := q.survey(ctx, func(all []member) bool { return q.groupOf(all) != "" })
	var failed, silent []error
	voters := 0
	for i, m := range all {
		if m.err != nil {
			failed = append(failed, m.err)
			if errors.Is(atOpening(m.err), driver.ErrDenied) {
				return m.err
			}
			continue
		}
		for _, o := range all[:i] {
			if o.err == nil && o.memory == m.memory {
				return fmt.Errorf("%s and %s lead to one Redis: %w", o.address, m.address, driver.ErrDenied)
			}
		}
		if m.group == "" {
			silent = append(silent, fmt.Errorf("%s: %w", m.address, errNoVote))
		} else {
			voters++
		}
	}
	if group := q.groupOf(all); group != "" {
		q.join(group, all)
		return nil
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", err, list(append(failed, silent...)))
	case len(failed) == 0 && voters == 0:
		return q.found(ctx, all)
	}
	return fmt.Errorf("%d of %d can vote: %w", voters, len(q.all), list(append(failed, silent...)))
}

// join lets those acceptors vote that are members of the group. Those that have not answered go on as they were.
func (q *Quorum) join(group string, all []member) {
	if was := q.group.Swap(&group); was == nil || *was != group {
		for _, a := range q.all {
			a.voting.Store(nil)
		}
	}
	for i := range all {
		m := &all[i]
		switch {
		case m.err != nil:
		case m.group == group:
			m.voting.Store(&m.memory)
		default:
			m.voting.Store(nil)
		}
	}
	for _, a := range q.all {
		if a.voting.Load() == nil {
			q.lookAgain(a) // perhaps it has not answered yet
		}
	}
}

// found founds a group of acceptors none of which votes. Each is enrolled first, and votes only when all are. So an acceptor
// that is not enrolled while another votes has forgotten that it was. Processes that found a group at the same time begin
// with the same acceptor.
func (q *Quorum) found(ctx context.Context, all []member) error {
	slices.SortFunc(all, func(a, b member) int { return strings.Compare(a.memory, b.memory) })
	name := register.NewVersion()
	stands, err := all[0].enrol(ctx, all[0].memory, "", "f "+hex.EncodeToString(name[:]))
	if err != nil {
		return err
	}
	if !strings.HasPrefix(stands, "f ") || len(stands) < 18 {
		return errors.New("it is being founded by somebody else")
	}
	group := stands[2:18]
	for _, step := range []struct{ before, after string }{{"*", "f " + group}, {"f " + group, "v " + group}} {
		for _, m := range all {
			stands, err := m.enrol(ctx, m.memory, step.before, step.after)
			if err != nil {
				return fmt.Errorf("%s: %w", m.address, err)
			}
			if !strings.HasPrefix(stands, step.after) && !strings.HasPrefix(stands, "v "+group) {
				return errors.New("it is being founded by somebody else")
			}
		}
	}
	q.log.Info("redis: a quorum is founded", "group", group)
	return errors.New("it was founded just now") // and assembles at the next try
}

// lookAgain looks, at most once a second, whether an acceptor that did not vote does so now.
func (q *Quorum) lookAgain(a *acceptor) {
	last := a.looked.Load()
	now := time.Now().UnixNano()
	if now-last < int64(time.Second) || !a.looked.CompareAndSwap(last, now) {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	over := make(chan struct{})
	a.looking.Store(&over)
	q.running.Go(func() {
		defer close(over)
		ctx, cancel := context.WithTimeout(q.life, dialTimeout)
		defer cancel()
		if a.ready(ctx) != nil {
			return
		}
		switch memory, group, _, err := a.membership(ctx); {
		case err != nil || group == "":
		case group == *q.group.Load():
			a.voting.Store(&memory)
		default: // another group is founded only when a majority has forgotten all
			q.forgot.Store(true)
		}
	})
}

// canServe needs mu.
func (q *Quorum) canServe() error {
	switch {
	case q.closed:
		return storekit.ErrClosed
	case q.forgot.Load():
		return register.ErrForgot
	}
	return nil
}

// Memory returns the memory of the group. It lasts as long as a majority remembers, and is another one after the group was
// founded again.
func (q *Quorum) Memory(ctx context.Context) (register.Memory, error) {
	all, err := q.survey(ctx, func(all []member) bool { return q.groupOf(all) != "" })
	m := register.Memory{ID: q.groupOf(all)}
	if m.ID == "" {
		var failed []error
		for _, m := range all {
			if m.err == nil && m.group == "" {
				m.err = fmt.Errorf("%s: %w", m.address, errNoVote)
			}
			if m.err != nil {
				failed = append(failed, m.err)
			}
		}
		if err == nil {
			err = errors.New("no majority votes")
		}
		return register.Memory{}, fmt.Errorf("redis: memory: %w: %w", err, list(failed))
	}
	m.For = register.Forever
	for _, one := range all {
		if one.err == nil && one.group == m.ID {
			m.For = min(m.For, one.since)
		}
	}
	if m.ID != *q.group.Load() {
		q.mu.Lock()
		clear(q.mine)
		q.mu.Unlock()
	}
	q.join(m.ID, all)
	q.forgot.Store(false)
	return m, nil
}

// Heal gives all servers that have forgotten their votes, and that can be reached, what the others know, so that they vote
// again. Call it when the log says that a server does not vote: after it was emptied, or restarted without having kept all
// that it answered. It takes a little more than 10 s, and a majority of all servers must vote meanwhile. It does no harm to
// call it for nothing, or from several processes.
//
// The wait is what makes it safe: a promise that a server gave before it forgot belongs to a round that is over by then, and
// others know of it if it counted.
func (q *Quorum) Heal(ctx context.Context) error {
	err := q.heal(ctx)
	if err != nil {
		err = fmt.Errorf("turnwise: redis: heal: %w", err)
	}
	return err
}

func (q *Quorum) heal(ctx context.Context) error {
	all, err := q.survey(ctx, func([]member) bool { return false })
	if err != nil {
		return err
	}
	group := q.groupOf(all)
	if group == "" {
		return errors.New("no majority votes: if the others have forgotten, too, empty all of them, and the next to open them founds the group anew")
	}
	if group == *q.group.Load() {
		q.join(group, all)
	}
	nonce := register.NewVersion()
	healing := "h " + hex.EncodeToString(nonce[:])
	var ill []member
	for _, m := range all {
		if m.err != nil || m.group != "" {
			continue
		}
		stands, err := m.enrol(ctx, m.memory, "*", healing)
		if err != nil {
			return fmt.Errorf("%s: %w", m.address, err)
		}
		if strings.HasPrefix(stands, healing) {
			ill = append(ill, m)
		}
	}
	if len(ill) == 0 {
		return nil
	}
	if err := driverkit.Sleep(ctx, q.healAfter); err != nil {
		return err
	}
	dumps, err := q.dump(ctx, "", q.all) // those that are ill do not answer it
	if err != nil {
		return err
	}
	union := make(map[string]kept)
	for _, d := range dumps {
		for key, k := range d {
			u := union[key]
			if u.promised.less(k.promised) {
				u.promised = k.promised
			}
			if u.accepted.ballot.less(k.accepted.ballot) {
				u.accepted = k.accepted
			}
			union[key] = u
		}
	}
	var healed sync.WaitGroup
	errs := make([]error, len(ill))
	for i, m := range ill {
		healed.Go(func() { errs[i] = q.healOne(ctx, m, healing, group, union) })
	}
	healed.Wait()
	return errors.Join(errs...)
}

func (q *Quorum) healOne(ctx context.Context, m member, healing, group string, union map[string]kept) error {
	for key, k := range union {
		text := k.promised.String() + k.accepted.ballot.String() + k.accepted.content.encode()
		reply, err := m.runIn(ctx, m.memory, healScript, []string{m.mark, m.index, q.root + key, m.member},
			[]string{healing, text, fmt.Sprint(k.accepted.age.Microseconds())})
		if err != nil {
			return fmt.Errorf("%s: %w", m.address, err)
		}
		if n, _ := reply.AsInt64(); n != 1 {
			return fmt.Errorf("%s: somebody else heals it", m.address)
		}
	}
	stands, err := m.enrol(ctx, m.memory, healing, "v "+group)
	if err == nil && !strings.HasPrefix(stands, "v "+group) {
		err = errors.New("somebody else heals it")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.address, err)
	}
	m.voting.Store(&m.memory)
	q.log.Info("redis: it votes again", "address", m.address, "registers", len(union))
	return nil
}
