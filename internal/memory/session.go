package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

type session struct {
	driver   *Driver
	id       int64
	life     *driverkit.Life
	deadline *driverkit.Deadline

	mu       sync.Mutex
	joins    int64
	epoch    int64
	standing int // how many of ours are in line, or on their way there
	watches  map[string]*watch
	chores   map[string]int // how many each contender has had
}

// Why a session is over.
var (
	errClosed    = errors.New("it was closed here")
	errAbandoned = errors.New("it was abandoned here")
	errExpired   = errors.New("the service has expired it")
)

func newSession(d *Driver) *session {
	return &session{
		driver:   d,
		life:     driverkit.NewLife(context.Background()),
		deadline: driverkit.NewDeadline(),
		watches:  make(map[string]*watch),
		chores:   make(map[string]int),
	}
}

func (s *session) service() *Service { return s.driver.service }

func (s *session) profile() Profile { return s.service().cfg.Profile }

func (s *session) Done() <-chan struct{} { return s.life.Done() }

func (s *session) Deadline() time.Time { return s.deadline.Time() }

// renewed records that the service heard us when we sent, or later. A tenth is left for clocks that run apart.
func (s *session) renewed(sent time.Time) {
	ttl := s.service().cfg.TTL
	s.deadline.Renewed(sent, ttl-ttl/10)
}

// renewal is a request that a session's server may answer by itself; to vouch, the others must agree.
const renewal = "renew"

// upkeep is how the session is kept alive. On ZooKeeper a server that is cut off from the others goes on answering renewals,
// and the others end the session meanwhile; so for those who stand in line the others have to vouch.
func (s *session) upkeep() (op string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.profile() == ZooKeeper && s.standing > 0 {
		return "vouch"
	}
	return renewal
}

// stand counts those in line.
func (s *session) stand(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.standing += n
}

// renew keeps the session alive. After a failed renewal it soon tries again.
func (s *session) renew() {
	defer s.driver.forget(s)
	every := s.service().cfg.TTL / 3
	for next := every; driverkit.Sleep(s.life.Context(), next) == nil; {
		sent := time.Now()
		var over bool
		err := s.driver.do(s.life.Context(), Request{Session: s.id, Op: s.upkeep(), Upkeep: true},
			func() { over = !s.service().renew(s.id) })
		switch {
		case err != nil:
			next = every / 10
		case over:
			s.life.End(errExpired)
			return
		default:
			s.renewed(sent)
			next = every
		}
	}
}

func (s *session) Close(ctx context.Context) error {
	defer s.life.End(errClosed)
	_, err := s.insist(ctx, Request{Op: "close", Upkeep: true}, func() answer {
		s.service().close(s.id)
		return answer{}
	})
	if errors.Is(err, driver.ErrSessionEnded) {
		return nil
	}
	return err
}

func (s *session) Abandon(ctx context.Context) {
	s.life.Settle(ctx)
	s.life.End(errAbandoned)
}

// chore returns a context for what outlives a contender's call. The context ends with the session, and has a name of
// its own for the Network.
func (s *session) chore(caller context.Context) context.Context {
	name := nameOf(caller)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.chores[name]++
	return WithName(s.life.Context(), fmt.Sprintf("%s'%d", name, s.chores[name]))
}
