package etcd

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

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

// A caller that watches the first in line reads soon after the stream has gone silent, and so hears that the service is
// out of reach, however patient it is otherwise.
func TestAListenerReadsSoonAfterTheServiceHasGoneSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &service{events: &muted{}, log: slog.New(slog.DiscardHandler), life: driverkit.NewLife(t.Context())}
		defer d.life.End(errClosed)
		d.watches = d.newWatches(d.life, "known")
		v := d.watches.vigil(span{key: "first"}, 0)
		defer v.end()
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
