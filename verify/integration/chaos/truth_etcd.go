package main

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const stampKey = "chaos-stamp"

// etcdHistory follows all keys from the first revision on.
type etcdHistory struct {
	client *clientv3.Client
	stop   context.CancelFunc
	done   sync.WaitGroup
	seen   atomic.Int64 // the last revision that has been read

	mu     sync.Mutex
	truth  truth
	stands map[string]*standing
	ended  map[string]int64 // when leases ended, by the names that sessions go by
	broken error
}

func followEtcd(addrs []string) (*etcdHistory, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: addrs, DialTimeout: 5 * time.Second,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	h := &etcdHistory{client: client, stop: cancel, stands: map[string]*standing{}, ended: map[string]int64{}}
	h.done.Go(func() { h.watch(ctx) })
	h.done.Go(func() { h.stamp(ctx) })
	return h, nil
}

func (h *etcdHistory) watch(ctx context.Context) {
	for ctx.Err() == nil {
		// A watch on a member that hangs would miss what the others have, so each watch lasts only a few seconds.
		once, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), 5*time.Second)
		for answer := range h.client.Watch(once, "", clientv3.WithPrefix(), clientv3.WithRev(h.seen.Load()+1)) {
			h.mu.Lock()
			if answer.CompactRevision > 0 {
				h.broken = fmt.Errorf("the history was compacted at %d before it was read", answer.CompactRevision)
			}
			for _, e := range answer.Events {
				h.take(e)
			}
			h.mu.Unlock()
			if len(answer.Events) > 0 {
				h.seen.Store(answer.Events[len(answer.Events)-1].Kv.ModRevision)
			}
		}
		cancel()
	}
}

func (h *etcdHistory) take(e *clientv3.Event) {
	key, kv := string(e.Kv.Key), e.Kv
	if key == stampKey {
		sent, _ := strconv.ParseInt(string(kv.Value), 10, 64)
		h.truth.stamps = append(h.truth.stamps, stamp{kv.ModRevision, time.Duration(sent)})
		return
	}
	if rest, isSession := strings.CutPrefix(key, "turnwise//session/"); isSession && e.Type == clientv3.EventTypeDelete {
		lease, _, _ := strings.Cut(rest, "/")
		h.ended[lease] = kv.ModRevision
	}
	line, kind, ok := etcdPlace(key)
	switch {
	case !ok:
	case e.Type == clientv3.EventTypeDelete:
		if s := h.stands[key]; s != nil {
			s.gone = kv.ModRevision
			delete(h.stands, key)
		}
	case e.IsCreate():
		s := &standing{line: line, kind: kind, born: kv.CreateRevision, order: [2]int64{kv.CreateRevision},
			node: key + "@" + strconv.FormatInt(kv.CreateRevision, 10)}
		h.stands[key] = s
		h.truth.nodes = append(h.truth.nodes, s)
	case kind == "W" && strings.HasPrefix(string(kv.Value), "turnwise kind R\n"):
		if s := h.stands[key]; s != nil && s.softened == 0 { // somebody else may write to it later
			s.softened = kv.ModRevision
		}
	}
}

// etcdPlace takes the key of a contender apart, ours or a peer's.
func etcdPlace(key string) (line, kind string, ok bool) {
	if rest, isPeer := strings.CutPrefix(key, "peer/"); isPeer {
		line, _, ok = strings.Cut(rest, "/")
		return line, "lock", ok
	}
	rest, ok := strings.CutPrefix(key, "turnwise/")
	if !ok {
		return "", "", false
	}
	line, rest, ok = strings.Cut(rest, "//")
	kind, _, named := strings.Cut(rest, "/")
	return line, kind, ok && named && line != ""
}

func (h *etcdHistory) stamp(ctx context.Context) {
	for ctx.Err() == nil {
		once, cancel := context.WithTimeout(ctx, time.Second)
		if answer, err := h.client.Put(once, stampKey, strconv.FormatInt(int64(mono()), 10)); err == nil {
			h.mu.Lock()
			h.truth.acks = append(h.truth.acks, stamp{answer.Header.Revision, mono()})
			h.mu.Unlock()
		}
		cancel()
		time.Sleep(10 * time.Millisecond)
	}
}

// compact makes the service forget what the history has already read.
func (h *etcdHistory) compact(ctx context.Context) error {
	_, err := h.client.Compact(ctx, h.seen.Load())
	return err
}

// finish waits until everything up to now has been read.
func (h *etcdHistory) finish(ctx context.Context) (*truth, error) {
	answer, err := h.client.Put(ctx, stampKey, strconv.FormatInt(int64(mono()), 10))
	for err == nil && h.seen.Load() < answer.Header.Revision {
		if err = ctx.Err(); err == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}
	h.close()
	if err == nil {
		err = h.broken
	}
	h.settle()
	return &h.truth, err
}

// settle puts together what was read.
func (h *etcdHistory) settle() {
	for _, s := range h.truth.nodes {
		key, _, _ := strings.Cut(s.node, "@")
		lease, _, _ := strings.Cut(path.Base(key), "-")
		s.revoked = s.gone > 0 && s.gone == h.ended[lease]
	}
	h.truth.order()
}

func (h *etcdHistory) close() {
	h.stop()
	h.done.Wait()
	_ = h.client.Close()
}
