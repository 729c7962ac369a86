package etcd

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

// muted is a service that opens the first watch it is asked for, and says nothing from then on.
type muted struct{ streams int }

func (s *muted) Watch(ctx context.Context, _ ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	s.streams++
	stream := &mutedStream{ctx: ctx, answers: make(chan *pb.WatchResponse, 1), dumb: s.streams > 1}
	return stream, nil
}

type mutedStream struct {
	grpc.ClientStream
	ctx     context.Context
	answers chan *pb.WatchResponse
	dumb    bool
}

func (s *mutedStream) Context() context.Context { return s.ctx }

func (s *mutedStream) Send(r *pb.WatchRequest) error {
	if create := r.GetCreateRequest(); create != nil && !s.dumb {
		s.dumb = true
		s.answers <- &pb.WatchResponse{Created: true, WatchId: create.GetWatchId(), Header: &pb.ResponseHeader{Revision: 1}}
	}
	return nil
}

func (s *mutedStream) Recv() (*pb.WatchResponse, error) {
	select {
	case said := <-s.answers:
		return said, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// keepWatch has somebody watch a key at a service, until the test ends.
func keepWatch(t *testing.T, events pb.WatchClient) (*service, *vigil) {
	d := &service{events: events, log: slog.New(slog.DiscardHandler), life: driverkit.NewLife(t.Context())}
	t.Cleanup(func() { d.life.End(errClosed) })
	d.watches = d.newWatches(d.life, "known")
	v := d.watches.vigil(span{key: "first"}, 0)
	t.Cleanup(v.end)
	return d, v
}

// A caller that watches the first in line reads soon after the stream has gone silent, and so hears that the service is
// out of reach, however patient it is otherwise.
func TestAListenerReadsSoonAfterTheServiceHasGoneSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, v := keepWatch(t, &muted{})
		v.deafFor = requestTimeout
		if events, err := v.next(t.Context(), pollEvery); len(events) > 0 || err != nil || v.open == 0 {
			t.Fatalf("the watch is not open: %v, %v", events, err)
		}
		v.caughtUp(1)

		for round := range 3 {
			begun := time.Now()
			if _, err := v.next(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			limit := requestTimeout
			if round == 0 {
				limit += pingEvery + 2*silence
			}
			if took := time.Since(begun); took > limit {
				t.Errorf("round %d: it is time to read after %v, want at most %v", round, took, limit)
			}
		}
	})
}

// members hands out its members in turn. The frozen ones take requests and say nothing; the others answer each.
type members struct {
	frozen []atomic.Bool

	mu     sync.Mutex
	turn   int
	opened []int
}

func (m *members) Watch(ctx context.Context, _ ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.turn % len(m.frozen)
	m.turn++
	m.opened = append(m.opened, i)
	ctx = peer.NewContext(ctx, &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1 + i}})
	return &memberStream{mutedStream{ctx: ctx, answers: make(chan *pb.WatchResponse, 100)}, &m.frozen[i]}, nil
}

type memberStream struct {
	mutedStream
	frozen *atomic.Bool
}

func (s *memberStream) Send(r *pb.WatchRequest) error {
	s.dumb = s.frozen.Load()
	return s.mutedStream.Send(r)
}

// The client library offers a frozen member like the others, and whenever as many other requests went out meanwhile as
// there are other members, to the same caller again: a waiter was deaf for 12 s.
func TestAStreamThatFellSilentIsOpenedOnAnotherMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &members{frozen: make([]atomic.Bool, 3)}
		d, v := keepWatch(t, m)
		if events, err := v.next(t.Context(), pollEvery); len(events) > 0 || err != nil || v.open == 0 {
			t.Fatalf("the watch is not open: %v, %v", events, err)
		}
		v.caughtUp(1)

		m.frozen[0].Store(true)
		time.Sleep(pingEvery + silence) // others' requests have gone to the second and the third member meanwhile
		m.mu.Lock()
		m.turn = 3
		m.mu.Unlock()
		time.Sleep(silence)
		m.mu.Lock()
		defer m.mu.Unlock()
		if last := m.opened[len(m.opened)-1]; last == 0 {
			t.Fatalf("the streams went to %v, want another member than the frozen one", m.opened)
		}
		if d.watches.isSilent("127.0.0.1:1") {
			t.Error("a member counts as silent though a stream has spoken")
		}
	})
}

// Where all go through one address, there is no other member to be had.
func TestTheOnlyMemberIsAskedAgainThoughItFellSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &members{frozen: make([]atomic.Bool, 1)}
		m.frozen[0].Store(true)
		d, _ := keepWatch(t, m)
		time.Sleep(2 * (pingEvery + silence))
		m.frozen[0].Store(false)
		time.Sleep(2 * (pingEvery + silence))
		if d.watches.isSilent("127.0.0.1:1") {
			t.Error("the member answers again, and counts as silent")
		}
	})
}
