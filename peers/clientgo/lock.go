package clientgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/recipes/election"
)

// Lock is an election as client-go knows it. One of them is for one elector at a time.
type Lock struct {
	election *election.Election
	identity string

	mu      sync.Mutex
	leave   context.CancelFunc // ends the candidacy; nil: it does not stand
	idle    *time.Timer        // ends it as well, when nobody has asked for long
	asked   time.Time          // when somebody has
	gap     time.Duration      // the longest of late between two times that somebody asked, while it stood; zero: nobody knows yet
	term    *election.Term     // nil: somebody else leads
	record  *resourcelock.LeaderElectionRecord
	lasts   time.Duration // how long an elector believes to lead once it was told so
	told    time.Time     // when it asked, and was told so; zero: it was not, or has said that it leads no more
	barred  time.Time     // until when it is told nothing
	kept    bool          // the term has been kept for a while although nobody asked
	untold  time.Time     // since when it has asked and could not be told of the term; zero: it could
	again   bool          // that was so when it last asked
	leader  string        // who leads, as far as is known
	trouble error         // why it does not stand
}

var _ resourcelock.Interface = (*Lock)(nil)

// New returns a candidate for an election. Its identity is what client-go shows of it, and the value of its term. Each process needs
// another one, such as the host's name and something random.
func New(e *election.Election, identity string) *Lock {
	return &Lock{election: e, identity: identity, lasts: usually}
}

// usually is how long client-go's electors believe to lead unless they are told otherwise.
const usually = 15 * time.Second

// nobody is the identity of a leader that does not say who it is.
const nobody = "somebody else"

// mostShown is how many bytes are shown of a leader's name. The host of a pod and a UUID have less.
const mostShown = 300

// shown is who leads, as it may go to the log of every candidate: whoever may stand writes there what he likes.
func shown(leader []byte) string {
	if len(leader) > mostShown {
		return coord.Printable(string(leader[:mostShown])) + "…"
	}
	return coord.Printable(string(leader))
}

// Get says who leads. If nobody does, or this one, it is client-go's to say by Update who it is.
func (l *Lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stand()
	if !l.again { // all went well, or the lease of Beside is another's
		l.untold = time.Time{}
	}
	l.again = false
	r := resourcelock.LeaderElectionRecord{LeaseDurationSeconds: int(l.lasts / time.Second), RenewTime: metav1.Now()}
	switch {
	case l.leads() && l.record != nil:
		r = *l.record
	case !l.leads():
		r.HolderIdentity = l.leader
		if r.HolderIdentity == "" || r.HolderIdentity == l.identity { // or client-go would take it for itself
			r.HolderIdentity = nobody
		}
	}
	if !l.leads() && coord.IsLasting(l.trouble) { // client-go tells this to its log, and asks again
		return nil, nil, fmt.Errorf("turnwise: %s cannot stand for the election: %w", l.identity, l.trouble)
	}
	raw, err := json.Marshal(r)
	return &r, raw, err
}

// Create fails: there is always something to Get.
func (l *Lock) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	return errors.New("turnwise: an election needs not be made")
}

// Update has client-go lead, or go on leading, if the term is sure to last for as long as that will be believed. Without a holder in the
// record, client-go gives up its lead.
func (l *Lock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.HolderIdentity == "" {
		l.told = time.Time{}
		l.end()
		return nil
	}
	return l.tell(r, time.Now())
}

// tell has the elector lead, which asked at that time.
func (l *Lock) tell(r resourcelock.LeaderElectionRecord, asked time.Time) error {
	if err := l.sure(r, asked); err != nil {
		return err
	}
	l.told, l.kept, l.record = asked, false, &r
	l.untold, l.again = time.Time{}, false
	return nil
}

// believesUntil is the last time at which the elector may believe that it leads.
func (l *Lock) believesUntil() time.Time { return l.told.Add(l.lasts) }

// sure returns nil if the term is sure to last for as long as an elector with this record, which asked at that time, will believe in it.
func (l *Lock) sure(r resourcelock.LeaderElectionRecord, asked time.Time) error {
	if r.LeaseDurationSeconds > 0 {
		l.lasts = time.Duration(r.LeaseDurationSeconds) * time.Second
	}
	l.stand()
	switch {
	case !l.leads():
		return errors.Join(fmt.Errorf("turnwise: %s does not lead", l.identity), l.trouble)
	case l.term.Deadline().Sub(asked) < l.lasts:
		return l.cannotTell(fmt.Errorf("turnwise: the term is sure for %v only, and a leader of client-go believes in it for %v: the client needs sessions (WithTTL) of twice that",
			l.term.Deadline().Sub(asked).Round(time.Millisecond), l.lasts))
	}
	return nil
}

// cannotTell notes that the elector has asked and could not be told of the term. When that has been so for two LeaseDurations, the term ends,
// or this candidate would keep out all others and never lead. If the elector led before, it has given up by then. An elector of which
// nobody knows the LeaseDuration yet gets twice its own pace.
func (l *Lock) cannotTell(err error) error {
	if l.again = true; l.untold.IsZero() {
		l.untold = time.Now()
	}
	since := time.Since(l.untold)
	if !l.leads() || since < 2*max(l.lasts, l.gap) {
		return err
	}
	l.end()
	l.told, l.barred = time.Time{}, time.Now().Add(2*l.lasts) // so that others have time to come
	return fmt.Errorf("%w; so it has been for %v, and another candidate may lead: this one stands again in %v", err, since.Round(time.Second), 2*l.lasts)
}

// RecordEvent does nothing: an election has no events.
func (l *Lock) RecordEvent(string) {}

// Identity is what New was given.
func (l *Lock) Identity() string { return l.identity }

// Describe is for client-go's log.
func (l *Lock) Describe() string { return "turnwise election, as " + l.identity }

// leads reports whether our term lasts, and the elector may be told.
func (l *Lock) leads() bool {
	return l.term != nil && l.term.Err() == nil && !time.Now().Before(l.barred)
}

// mostIdle is longer than any elector leaves between two questions.
const mostIdle = 5 * time.Minute

// mayIdle is how long nobody asks before it is over. An elector that waits asks after one to 2.2 of its RetryPeriod, which it tells nobody.
func (l *Lock) mayIdle() time.Duration {
	if l.gap == 0 {
		return mostIdle
	}
	return min(max(l.lasts, 3*l.gap), mostIdle)
}

// stand has the candidate stand until nobody has asked for long.
func (l *Lock) stand() {
	before := l.asked
	l.asked = time.Now()
	if l.leave != nil {
		l.gap = max(l.gap/2, l.asked.Sub(before))
		l.idle.Reset(l.mayIdle())
		return
	}
	if !l.told.IsZero() {
		// The elector does not know that the term is over, and takes a second one for the same, although somebody else may have led
		// in between. So it is told nothing until it has given up.
		l.told, l.barred = time.Time{}, time.Now().Add(2*l.lasts)
	}
	if time.Now().Before(l.barred) {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.leave = cancel
	l.idle = time.AfterFunc(l.mayIdle(), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case ctx.Err() != nil || time.Since(l.asked) < l.mayIdle(): // it has asked meanwhile
		case !l.told.IsZero() && !l.kept:
			// The process may have been stopped, and goes on. Then its elector believes for a while yet that it leads, so the term
			// stays until that is over, and it is told nothing.
			l.kept, l.barred = true, time.Now().Add(2*l.lasts)
			l.idle.Reset(l.lasts)
		default:
			l.end()
		}
	})
	go l.watch(ctx)
	go l.campaign(ctx)
}

// end ends the candidacy, or the term. As long as the elector believes that it leads its place stays, whatever has become of the term: the
// service may not have ended it, as when the client was closed.
func (l *Lock) end() {
	if l.leave == nil {
		return
	}
	l.leave()
	l.idle.Stop()
	if term := l.term; term != nil {
		time.AfterFunc(time.Until(l.believesUntil()), func() { _ = term.Release() })
	}
	l.leave, l.term, l.record, l.untold = nil, nil, nil, time.Time{}
}

// mendedIn is how long it waits before it tries again what was refused, and how long it stands before what it was refused is past.
const mendedIn = 10 * time.Second

// campaign stands until there is a term, and looks after that.
func (l *Lock) campaign(ctx context.Context) {
	var retries driverkit.Retries
	for ctx.Err() == nil {
		began := time.Now()
		mended := time.AfterFunc(mendedIn, l.isWellAgain)
		term, err := l.election.Campaign(ctx, []byte(l.identity))
		mended.Stop()
		if err == nil {
			l.serve(ctx, term)
			return
		}
		l.mu.Lock()
		l.trouble = err
		l.mu.Unlock()
		switch {
		case isForGood(err):
			return
		case coord.IsLasting(err): // an operator may mend it
			_ = driverkit.Sleep(ctx, driverkit.Jitter(mendedIn))
		default:
			_ = retries.Sleep(ctx, began)
		}
	}
}

// isForGood reports whether nobody can mend what an error says.
func isForGood(err error) bool {
	return errors.Is(err, coord.ErrClosed) || errors.Is(err, coord.ErrInvalid)
}

// locked does something that must not be mixed with anything else.
func (l *Lock) locked(do func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return do()
}

// isWellAgain records that it has stood for a while and not been refused.
func (l *Lock) isWellAgain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trouble = nil
}

func (l *Lock) serve(ctx context.Context, term *election.Term) {
	l.mu.Lock()
	if ctx.Err() != nil {
		l.mu.Unlock()
		_ = term.Release()
		return
	}
	l.term, l.trouble = term, nil
	l.mu.Unlock()
	select {
	case <-ctx.Done():
		return
	case <-term.Context().Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() == nil {
		l.trouble = term.Err()
		l.end()
	}
}

// watch notes who leads.
func (l *Lock) watch(ctx context.Context) {
	for ctx.Err() == nil {
		for leader, err := range l.election.Observe(ctx) {
			l.mu.Lock()
			if l.leader = shown(leader.Data); err != nil {
				l.leader = ""
			}
			l.mu.Unlock()
			if isForGood(err) {
				return
			}
		}
		_ = driverkit.Sleep(ctx, driverkit.Jitter(mendedIn)) // it was refused
	}
}
