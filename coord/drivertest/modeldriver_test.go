package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
)

// flaw is something that a driver, or the service below it, does wrong.
type flaw string

const (
	flawless            flaw = ""
	noCleanUp           flaw = "a cancelled join is not cleaned up"
	lateApplyNotFenced  flaw = "a join applied after the clean-up stays"
	joinRetriedBlindly  flaw = "an ambiguous join is sent again"
	leaveGivesUp        flaw = "a leave is tried once"
	leaveByPlace        flaw = "a leave removes whatever the session has in the line"
	deadlineFromReceipt flaw = "the deadline counts from the receipt"
	deadlineNeverPasses flaw = "the deadline is far away"
	removalIgnored      flaw = "a waiter does not look at its own node"
	wakeUpLost          flaw = "a watch is set without looking"
	markTrustedAlone    flaw = "any news of the node ahead lets the one behind in"
	writeForTurn        flaw = "whoever writes to a node before it goes lets the next one in"
	markWithoutPlace    flaw = "a mark lets in whoever waits for it, right behind or not"
	notPinned           flaw = "a join of a dead session runs in the next one"
	contextIgnored      flaw = "requests run to their own deadline"
	tryJoins            flaw = "a try joins a busy line and leaves it"
	tryWantsAll         flaw = "a try wants the whole line empty"
	tryReadsAll         flaw = "a try reads each node of the line"
	busyIfOutOfReach    flaw = "a try that hears nothing says busy"
	endTakenForRemoval  flaw = "the end of the session is reported as a removal"
	goroutineLeak       flaw = "each await leaves a goroutine"
	closeLeavesNodes    flaw = "closing a session leaves its nodes to the TTL"
	abandonCloses       flaw = "abandoning a session closes it"
	abandonCutsShort    flaw = "abandoning a session leaves what is being taken away"
	abandonKeeps        flaw = "an abandoned session is renewed"
	oneReadTooMany      flaw = "a join reads once more"
	herd                flaw = "everybody hears of every release"
	tokensRestart       flaw = "an emptied line counts from one"
	deadNodesStay       flaw = "a dead session's nodes stay"
	amendCreates        flaw = "an amendment of a removed node creates it"
	amendWakesNobody    flaw = "an amendment wakes nobody"
	nestedLinesCount    flaw = "nested lines are part of the line"
	foreignersCount     flaw = "foreign children are contenders"
	firstByID           flaw = "a watcher is not told of other data"
	firstOnly           flaw = "a watcher of the whole line is told of the first node only"
	comingsOnly         flaw = "a watcher of the whole line is not told who leaves"
	firstWaits          flaw = "a watcher is not told that the service is out of reach"
	deadlineMovesBack   flaw = "a late answer moves the deadline back"
	cutEndsSession      flaw = "a cut ends the session"
	namesFold           flaw = "names are told apart by letters alone, not by case"
	amendMovesBack      flaw = "an amended node goes to the end of the line"
	quitterUnwatches    flaw = "one who gives up takes the watch of others away"
	newsLostInCut       flaw = "what happened while the link was cut is not looked for"
	waitOutlivesSession flaw = "a wait goes on when its session ends"
	blindLook           flaw = "a join does not see the node right ahead"
	removalDoubted      flaw = "a holder told of its removal believes until the service has confirmed it"
	amendNotAsked       flaw = "an amendment that changes nothing asks nobody"
	memoOfTheGone       flaw = "a memo is written whoever stands in the line"
	memosFold           flaw = "memos of lines that differ by case are one"
	memoGoes            flaw = "a memo goes with the last node"
	memoAfterLeave      flaw = "a memo that is given up is written later"
	memoTryLate         flaw = "a memo whose try had no answer is written later"
	dataCut             flaw = "data is cut at 60 KiB"

	claimsTTL       flaw = "the strength says that a TTL ends a session, and only the kernel does"
	claimsKernel    flaw = "the strength says that the kernel tells of a death, and only a TTL does"
	claimsTold      flaw = "the strength says that waiters are told, and they poll"
	claimsMemory    flaw = "the strength says that a restart remembers, and it forgets"
	claimsOpenness  flaw = "the strength says that a restart says what it forgets, and it does not"
	claimsForEver   flaw = "the strength says that tokens rise for ever, and a restart takes them back"
	concealsOrder   flaw = "the strength denies the order of joining, and it is kept"
	concealsTold    flaw = "the strength denies that waiters are told, and they are"
	concealsMemory  flaw = "the strength denies that a restart remembers, and it does"
	concealsOpen    flaw = "the strength denies that a restart says what it forgets, and it does"
	concealsForEver flaw = "the strength denies that tokens rise for ever, and they do"
)

// modelStrength is the strength of the model, and describes what it does.
var modelStrength = driver.Strength{
	Order: driver.FirstCome, Death: driver.ByTTL, Restart: driver.Remembers, Failover: driver.NoFailover, Tokens: driver.RiseForEver, WakeUp: driver.Told,
}

// strengths returns what the model does and what its strength says.
func (f flaw) strengths() (nature, claimed driver.Strength) {
	nature, claimed = modelStrength, modelStrength
	switch f {
	case claimsTTL:
		nature.Death = driver.ByKernel
	case claimsKernel:
		claimed.Death = driver.ByKernel
	case claimsTold:
		nature.WakeUp = driver.Polled
	case claimsMemory:
		nature.Restart = driver.Forgets
	case claimsOpenness:
		nature.Restart, claimed.Restart = driver.Forgets, driver.ForgetsOpenly
	case claimsForEver:
		nature.Restart, claimed.Restart = driver.Forgets, driver.Forgets
		nature.Tokens = driver.RiseWhileRemembered
	case concealsOrder:
		claimed.Order = driver.AnyOrder
	case concealsTold:
		claimed.WakeUp = driver.Polled
	case concealsMemory:
		claimed.Restart = driver.Forgets
	case concealsOpen:
		nature.Restart, claimed.Restart = driver.ForgetsOpenly, driver.Forgets
	case concealsForEver:
		nature.Restart, claimed.Restart = driver.Forgets, driver.Forgets
		claimed.Tokens = driver.RiseWhileRemembered
	}
	return nature, claimed
}

// modelDriver is a driver for modelService: correct, except for the flaw planted in it.
type modelDriver struct {
	svc     *modelService
	link    *FaultLink
	claimed driver.Strength
	flaw    flaw

	mu       sync.Mutex
	every    []int64 // the sessions that were opened
	sessions map[*modelLiveness]bool
	subs     map[string]map[*modelSub]bool
	current  int64
	closed   bool // nothing more runs
	running  sync.WaitGroup
	stop     context.CancelFunc
	life     context.Context
}

func newModelDriver(svc *modelService, l *FaultLink, claimed driver.Strength, f flaw) *modelDriver {
	d := &modelDriver{svc: svc, link: l, claimed: claimed, flaw: f, sessions: map[*modelLiveness]bool{}, subs: map[string]map[*modelSub]bool{}}
	d.life, d.stop = context.WithCancel(context.Background())
	return d
}

func (d *modelDriver) Strength() driver.Strength { return d.claimed }

// kernel reports whether a session ends only with the process that has it.
func (d *modelDriver) kernel() bool { return d.svc.nature.Death == driver.ByKernel }

// die is the end of the process: connections break and are not restored.
func (d *modelDriver) die() {
	d.link.Cut()
	d.mu.Lock()
	every := slices.Clone(d.every)
	d.mu.Unlock()
	d.stop()
	if d.svc.nature.Death&driver.ByKernel != 0 {
		for _, id := range every {
			d.svc.end(id)
		}
	}
}

func (d *modelDriver) RequestTimeout() time.Duration { return 200 * time.Millisecond }

// request sends one request, with a deadline of its own.
func request[T any](ctx context.Context, d *modelDriver, kind Sort, size int, apply func() T) (T, error) {
	limit := d.RequestTimeout()
	if d.flaw == contextIgnored {
		ctx, limit = context.WithoutCancel(ctx), 5*limit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer := new(T) // so that a late answer is written to where nobody still reads
	if err := d.link.Do(ctx, kind, size, func() int { *answer = apply(); return size }); err != nil {
		return *new(T), err
	}
	return *answer, nil
}

// insist sends a request, which may be applied twice, until it is answered or ctx ends.
func insist[T any](ctx context.Context, d *modelDriver, kind Sort, size int, apply func() T) (T, error) {
	for {
		a, err := request(ctx, d, kind, size, apply)
		if err == nil || ctx.Err() != nil {
			return a, errors.Join(err, ctx.Err())
		}
	}
}

func (d *modelDriver) Open(ctx context.Context) (driver.Session, error) {
	for {
		sent := time.Now()
		id, err := request(ctx, d, Upkeep, 0, d.svc.open)
		if err != nil {
			if ctx.Err() != nil {
				return nil, errors.Join(err, ctx.Err())
			}
			continue
		}
		if id == 0 {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		s := &modelLiveness{d: d, id: id, done: make(chan struct{})}
		s.life, s.kill = context.WithCancel(d.life)
		s.renewed(sent)
		d.mu.Lock()
		d.sessions[s] = true
		d.every = append(d.every, id)
		d.current = id
		if !d.closed {
			d.running.Go(s.renew)
		}
		d.mu.Unlock()
		return s, nil
	}
}

func (d *modelDriver) Line(ctx context.Context, line string) ([]driver.Node, error) {
	return insist(ctx, d, Reading, 0, func() []driver.Node { return d.svc.look(d, line) })
}

func (d *modelDriver) Lines(ctx context.Context, prefix string) ([]string, error) {
	return insist(ctx, d, Reading, 0, func() []string { return d.svc.names(prefix) })
}

func (d *modelDriver) First(ctx context.Context, line string, most int, seen *driver.Look) (driver.Look, error) {
	for {
		looking, cancel := context.WithTimeout(ctx, d.svc.ttl)
		if d.flaw == firstWaits {
			looking = ctx
		}
		now, err := insist(looking, d, Reading, 0, func() driver.Look { return d.svc.shows(line) })
		cancel()
		if err != nil {
			return driver.Look{}, err
		}
		now.Nodes = now.Nodes[:min(len(now.Nodes), most)]
		if seen == nil || !now.IsOf(d.overlook(now.Nodes, seen.Nodes)) {
			return now, nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return driver.Look{}, ctx.Err()
		}
	}
}

// overlook returns what was seen, made to look like what stands there now as far as the flaw goes.
func (d *modelDriver) overlook(now, seen []driver.Node) []driver.Node {
	seen = slices.Clone(seen)
	switch {
	case d.flaw == firstByID:
		for i := range min(len(now), len(seen)) {
			seen[i].Data = now[i].Data
		}
	case d.flaw == firstOnly && len(now) > 0 && len(seen) > 0:
		return append(seen[:1:1], now[1:]...)
	case d.flaw == comingsOnly && len(now) < len(seen):
		return now
	}
	return seen
}

func (d *modelDriver) Remove(ctx context.Context, n driver.Node) error {
	was, err := request(ctx, d, Placing, 0, func() bool { return d.svc.leave(n.Line, n.ID, false) })
	if err == nil && !was {
		err = driver.ErrRemoved
	}
	return err
}

func (d *modelDriver) Memo(ctx context.Context, line string) ([]byte, error) {
	memo, err := request(ctx, d, Reading, 0, func() string {
		d.svc.mu.Lock()
		defer d.svc.mu.Unlock()
		if d.flaw == memosFold {
			line = strings.ToLower(line)
		}
		if d.flaw == memoGoes && len(d.svc.lines[line]) == 0 {
			return ""
		}
		return d.svc.memos[line]
	})
	return []byte(memo), err
}

func (d *modelDriver) Forget(ctx context.Context, line string) error {
	_, err := request(ctx, d, Reading, 0, func() bool {
		d.svc.mu.Lock()
		defer d.svc.mu.Unlock()
		delete(d.svc.memos, line)
		return true
	})
	return err
}

func (d *modelDriver) Close(ctx context.Context) error {
	d.mu.Lock()
	var sessions []*modelLiveness
	for s := range d.sessions {
		sessions = append(sessions, s)
	}
	d.mu.Unlock()
	var all error
	for _, s := range sessions {
		all = errors.Join(all, s.Close(ctx))
	}
	d.stop()
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.running.Wait()
	return all
}

func (d *modelDriver) heard(n modelNews) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for sub := range d.subs[n.id] {
		sub.add(n)
	}
}

// modelSub collects news of certain nodes.
type modelSub struct {
	mu   sync.Mutex
	news []modelNews
	more chan struct{}
	left bool // the latest news taken says that the waiter's own node has gone

	written bool // some news said that another node was written to
}

func (s *modelSub) add(n modelNews) {
	s.mu.Lock()
	s.news = append(s.news, n)
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
}

func (s *modelSub) take() []modelNews {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := s.news
	s.news = nil
	return news
}

func (d *modelDriver) subscribe(ids []string) (*modelSub, func()) {
	sub := &modelSub{more: make(chan struct{}, 1)}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		if d.subs[id] == nil {
			d.subs[id] = map[*modelSub]bool{}
		}
		d.subs[id][sub] = true
	}
	return sub, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.flaw == quitterUnwatches {
			for _, id := range ids {
				delete(d.subs, id)
			}
		}
		for _, id := range ids {
			if delete(d.subs[id], sub); len(d.subs[id]) == 0 {
				delete(d.subs, id)
			}
		}
	}
}

// modelLiveness is a session.
type modelLiveness struct {
	d    *modelDriver
	id   int64
	life context.Context
	kill context.CancelFunc
	done chan struct{}
	once sync.Once

	errands   sync.WaitGroup // joins and departures that go on without their callers
	abandoned bool           // guarded by d.mu: no more errands may begin

	mu       sync.Mutex
	deadline time.Time
	renewals int
}

func (s *modelLiveness) over() {
	s.once.Do(func() {
		close(s.done)
		s.kill()
		s.d.mu.Lock()
		delete(s.d.sessions, s)
		s.d.mu.Unlock()
	})
}

func (s *modelLiveness) renewed(sent time.Time) {
	ttl := s.d.svc.ttl
	switch s.d.flaw {
	case deadlineFromReceipt:
		sent = time.Now()
	case deadlineNeverPasses:
		sent = time.Now().Add(time.Hour)
	}
	if s.d.kernel() {
		sent = sent.AddDate(100, 0, 0)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := sent.Add(ttl - ttl/10); until.After(s.deadline) || s.d.flaw == deadlineMovesBack {
		if s.renewals++; s.d.flaw == deadlineMovesBack && s.renewals%2 == 0 {
			until = until.Add(-ttl / 2)
		}
		s.deadline = until
	}
}

func (s *modelLiveness) renew() {
	tick := time.NewTicker(s.d.svc.ttl / 5)
	defer tick.Stop()
	if s.d.flaw == cutEndsSession {
		tick.Reset(s.d.svc.ttl / 50)
	}
	for {
		select {
		case <-tick.C:
		case <-s.life.Done():
			return
		}
		sent := time.Now()
		alive, err := request(s.life, s.d, Upkeep, 0, func() bool { return s.d.svc.renew(s.id) })
		if err != nil {
			if s.d.flaw == cutEndsSession && errors.Is(err, ErrLinkLost) {
				s.over()
			}
			continue
		}
		if !alive {
			s.over()
			return
		}
		s.renewed(sent)
	}
}

func (s *modelLiveness) Deadline() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadline
}

func (s *modelLiveness) Done() <-chan struct{} { return s.done }

func (s *modelLiveness) Close(ctx context.Context) error {
	s.over()
	if s.d.flaw == closeLeavesNodes {
		return nil
	}
	if s.d.kernel() { // the kernel is asked, not the service
		s.d.svc.end(s.id)
		return nil
	}
	_, err := insist(ctx, s.d, Upkeep, 0, func() bool { s.d.svc.end(s.id); return true })
	return err
}

func (s *modelLiveness) Abandon(ctx context.Context) {
	if s.d.flaw != abandonCutsShort {
		s.d.mu.Lock()
		s.abandoned = true
		s.d.mu.Unlock()
		settled := make(chan struct{})
		go func() {
			defer close(settled)
			s.errands.Wait()
		}()
		select {
		case <-settled:
		case <-ctx.Done():
		}
	}
	switch s.d.flaw {
	case abandonCloses:
		s.d.svc.end(s.id)
	case abandonKeeps:
		life := s.d.life
		go func() {
			for life.Err() == nil && s.d.svc.renew(s.id) {
				time.Sleep(50 * time.Millisecond)
			}
		}()
	}
	s.over()
}

var modelIDs atomic.Int64

// modelID returns an id that has never been used.
func modelID() string { return fmt.Sprintf("%x", modelIDs.Add(1)) }

// in returns a context that ends with ctx and with the session.
func (s *modelLiveness) in(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if s.d.flaw == waitOutlivesSession {
		return ctx, func() { cancel(nil) }
	}
	if s.life.Err() != nil {
		cancel(driver.ErrSessionEnded)
	}
	stop := context.AfterFunc(s.life, func() { cancel(driver.ErrSessionEnded) })
	return ctx, func() { stop(); cancel(nil) }
}

// because returns the error of a call whose ctx, made by in, has ended.
func (s *modelLiveness) because(ctx context.Context) error {
	if s.life.Err() != nil {
		return driver.ErrSessionEnded
	}
	return context.Cause(ctx)
}

type modelJoined struct {
	me    *driver.Node
	ahead []driver.Node
	alive bool
}

// modelPlace is a contender of ours.
type modelPlace struct {
	*modelLiveness
	sight driver.Sight
	calls atomic.Int64 // how often it has been asked to remember
	mu    sync.Mutex
	node  driver.Node
}

func (p *modelPlace) Node() driver.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node
}

func (p *modelPlace) Last() bool { return false }

func (s *modelLiveness) Join(ctx context.Context, e driver.Entry) (driver.Place, []driver.Node, error) {
	ctx, cancel := s.in(ctx)
	defer cancel()
	if e.Free != nil && s.d.flaw != tryJoins {
		if err := s.tryLook(ctx, e); err != nil {
			return nil, nil, err
		}
	}
	for ctx.Err() == nil {
		n := driver.Node{Line: e.Line, ID: fmt.Sprintf("%d-%s", s.id, modelID()), Kind: e.Kind, Owner: e.Owner, Data: slices.Clone(e.Data)}
		if len(n.Data) == 0 {
			n.Data = nil
		}
		n.Owner.Since = n.Owner.Since.UTC().Truncate(time.Millisecond)
		if s.d.flaw == dataCut && len(n.Data) > 60<<10 {
			n.Data = n.Data[:60<<10]
		}
		j, err := request(ctx, s.d, Placing, len(e.Data), func() modelJoined {
			me, ahead, alive := s.d.svc.join(s.session(), n)
			return modelJoined{me, ahead, alive}
		})
		switch {
		case err == nil && !j.alive:
			s.over()
			return nil, nil, driver.ErrSessionEnded
		case err == nil && j.me != nil:
			return s.joined(ctx, e, *j.me, j.ahead)
		}
		switch s.d.flaw {
		case joinRetriedBlindly:
			continue
		case noCleanUp:
			if ctx.Err() != nil {
				return nil, nil, s.because(ctx)
			}
		}
		if err := s.inBackground(ctx, func(ctx context.Context) error {
			_, err := insist(ctx, s.d, Placing, 0, func() bool { s.d.svc.fence(s.id, n.Line, n.ID); return true })
			return err
		}); err != nil {
			return nil, nil, s.because(ctx)
		}
	}
	return nil, nil, s.because(ctx)
}

func (s *modelLiveness) session() int64 {
	if s.d.flaw == notPinned {
		s.d.mu.Lock()
		defer s.d.mu.Unlock()
		return s.d.current
	}
	return s.id
}

func (s *modelLiveness) tryLook(ctx context.Context, e driver.Entry) error {
	seen, err := insist(ctx, s.d, Reading, 0, func() []driver.Node { return s.d.svc.look(s.d, e.Line) })
	if err != nil {
		if s.d.flaw == busyIfOutOfReach {
			return driver.ErrBusy
		}
		return s.because(ctx)
	}
	if s.d.flaw == tryReadsAll {
		for range seen {
			_, _ = s.d.Line(ctx, e.Line)
		}
	}
	if seen = within(e.Sight, seen); e.InVain(seen) || s.d.flaw == tryWantsAll && len(seen) > 0 {
		return driver.ErrBusy
	}
	return nil
}

func (s *modelLiveness) joined(ctx context.Context, e driver.Entry, me driver.Node, ahead []driver.Node) (driver.Place, []driver.Node, error) {
	if s.d.flaw == oneReadTooMany {
		_, _ = s.d.Line(ctx, e.Line)
	}
	ahead = within(e.Sight, ahead)
	if s.d.flaw == blindLook && len(ahead) > 0 {
		ahead = ahead[:len(ahead)-1]
	}
	place := &modelPlace{modelLiveness: s, sight: e.Sight, node: me}
	if e.InVain(ahead) {
		if s.d.flaw == tryJoins {
			time.Sleep(20 * time.Millisecond)
		}
		_ = place.Leave(ctx, false)
		return nil, nil, driver.ErrBusy
	}
	return place, ahead, nil
}

// inBackground runs f, which goes on after ctx has ended, until the session ends.
func (s *modelLiveness) inBackground(ctx context.Context, f func(ctx context.Context) error) error {
	result := make(chan error, 1)
	s.d.mu.Lock()
	if !s.d.closed && !s.abandoned {
		s.errands.Add(1)
		s.d.running.Go(func() {
			defer s.errands.Done()
			result <- f(s.life)
		})
	}
	s.d.mu.Unlock()
	select {
	case err := <-result:
		return err
	case <-ctx.Done(): // at the latest when the session is over
		return ctx.Err()
	}
}

func within(sight driver.Sight, nodes []driver.Node) []driver.Node {
	var seen []driver.Node
	for _, n := range nodes {
		if sight.Sees(n.Kind) {
			seen = append(seen, n)
		}
	}
	return seen
}

func (p *modelPlace) Watch(ctx context.Context) error {
	_, err := p.Await(ctx, nil)
	return err
}

func (p *modelPlace) Await(ctx context.Context, wait []driver.Node) ([]driver.Node, error) {
	s, me := p.modelLiveness, p.Node()
	ctx, cancel := s.in(ctx)
	defer cancel()
	if s.d.flaw == goroutineLeak {
		go func() { <-planted }()
	}
	ids := []string{me.ID}
	for _, w := range wait {
		ids = append(ids, w.ID)
	}
	watched := ids
	if s.d.svc.nature.WakeUp == driver.Polled {
		watched = nil
	}
	sub, unsubscribe := s.d.subscribe(ids)
	defer unsubscribe()
	for first := true; ctx.Err() == nil; first = false {
		broken := s.d.link.broken()
		asking, cancelAsking := ctx, func() {}
		told := len(wait) == 0 && sub.left && s.d.flaw != removalDoubted // a holder was told that its node has gone
		if told {
			asking, cancelAsking = context.WithTimeout(ctx, 20*time.Millisecond)
		}
		seen, err := request(asking, s.d, Reading, 0, func() []driver.Node { return s.d.svc.look(s.d, me.Line, watched...) })
		if told && err != nil && asking.Err() != nil && ctx.Err() == nil {
			cancelAsking()
			return nil, driver.ErrRemoved
		}
		cancelAsking()
		if err != nil {
			continue
		}
		at := slices.IndexFunc(seen, func(n driver.Node) bool { return n.ID == me.ID })
		if at < 0 {
			if s.d.flaw != removalIgnored {
				return nil, s.removed(ctx)
			}
			if at = len(seen); len(wait) == 0 {
				<-ctx.Done()
				break
			}
		}
		ahead := seen[:at]
		if !(s.d.flaw == wakeUpLost && first) && changed(ahead, wait) {
			return within(p.sight, ahead), nil
		}
		if s.listen(ctx, sub, broken, me, ahead, wait) {
			return nil, nil
		}
	}
	return nil, s.because(ctx)
}

// removed distinguishes a node that was removed from one that went with its session.
func (s *modelLiveness) removed(ctx context.Context) error {
	alive, err := insist(ctx, s.d, Upkeep, 0, func() bool { return s.d.svc.renew(s.id) })
	if err == nil && !alive {
		s.over()
	}
	if err == nil && alive || s.d.flaw == endTakenForRemoval {
		return driver.ErrRemoved
	}
	return s.because(ctx)
}

// changed reports whether one of wait has left or has another kind than the caller saw.
func changed(ahead, wait []driver.Node) bool {
	for _, w := range wait {
		if !slices.ContainsFunc(ahead, func(n driver.Node) bool { return n.ID == w.ID && n.Kind == w.Kind }) {
			return true
		}
	}
	return false
}

// listen waits for a reason to look again. It returns true if the news alone shows that nobody is ahead.
func (s *modelLiveness) listen(ctx context.Context, sub *modelSub, broken <-chan struct{}, me driver.Node, ahead, wait []driver.Node) bool {
	poll := time.NewTimer(4 * time.Second)
	defer poll.Stop()
	if s.d.svc.nature.WakeUp == driver.Polled {
		poll.Reset(60 * time.Millisecond) // hundreds wait in one process, and each look goes through the line
	}
	switch s.d.flaw {
	case wakeUpLost, newsLostInCut:
		poll.Reset(time.Hour)
		broken = nil
	}
	for {
		select {
		case <-sub.more:
		case <-broken:
			return false
		case <-poll.C:
			return false
		case <-ctx.Done():
			return false
		}
		news := sub.take()
		sub.left = slices.ContainsFunc(news, func(n modelNews) bool { return n.id == me.ID && n.left })
		for _, n := range news {
			if s.d.flaw == writeForTurn && n.id != me.ID && n.left && sub.written {
				return true
			}
			sub.written = sub.written || n.id != me.ID && !n.left
		}
		if slices.ContainsFunc(news, func(n modelNews) bool { return n.id == me.ID }) || len(wait) == 0 {
			return false
		}
		for _, n := range news {
			last := wait[len(wait)-1].ID
			switch {
			case s.d.flaw == markTrustedAlone:
				return true
			case s.d.flaw == amendWakesNobody && !n.left:
				continue
			case n.left && n.held && n.id == last && (len(ahead) > 0 && ahead[len(ahead)-1].ID == last || s.d.flaw == markWithoutPlace):
				return true
			}
			return false
		}
	}
}

func (p *modelPlace) Amend(ctx context.Context, kind string, data []byte) error {
	s, me := p.modelLiveness, p.Node()
	if s.d.flaw == amendNotAsked && me.Kind == kind && string(me.Data) == string(data) {
		return nil
	}
	me.Kind, me.Data = kind, data
	ctx, cancel := s.in(ctx)
	defer cancel()
	stood, err := insist(ctx, s.d, Placing, len(me.Data), func() bool { return s.d.svc.amend(me) })
	if err != nil {
		return s.because(ctx)
	}
	if !stood {
		return driver.ErrRemoved
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.node = me
	return nil
}

func (p *modelPlace) Remember(ctx context.Context, memo []byte) error {
	s, me := p.modelLiveness, p.Node()
	ctx, cancel := s.in(ctx)
	defer cancel()
	call := p.calls.Add(1)
	stood, err := insist(ctx, s.d, Placing, len(memo), func() bool { return s.d.svc.remember(me, call, string(memo)) })
	if err != nil && s.d.flaw == memoAfterLeave {
		time.AfterFunc(Late, func() {
			s.d.svc.mu.Lock()
			defer s.d.svc.mu.Unlock()
			s.d.svc.memos[me.Line] = string(memo)
		})
	}
	if err != nil {
		return s.because(ctx)
	}
	if !stood {
		return driver.ErrRemoved
	}
	return nil
}

func (p *modelPlace) Leave(ctx context.Context, held bool) error {
	s, me := p.modelLiveness, p.Node()
	ctx, cancel := s.in(ctx)
	defer cancel()
	leave := func() bool { return s.d.svc.leave(me.Line, me.ID, held) }
	switch s.d.flaw {
	case leaveGivesUp:
		_, err := request(ctx, s.d, Placing, 0, leave)
		return err
	case leaveByPlace:
		leave = func() bool { return s.d.svc.leaveAll(me.Line, s.id, held) }
	}
	err := s.inBackground(ctx, func(ctx context.Context) error {
		_, err := insist(ctx, s.d, Placing, 0, leave)
		return err
	})
	if err != nil {
		return s.because(ctx)
	}
	return nil
}
