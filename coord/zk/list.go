package zk

import "context"

// list is what a directory holds, in no order.
type list struct {
	names []string
	born  int64 // the transaction that made the directory
	asOf  int64 // what happened up to this transaction shows in it
}

// listRequest asks for a list and, if watched, for word of its next change.
func (s *session) listRequest(dir string, watched bool) (request, <-chan reply[*list]) {
	var e encoder
	e.string(dir)
	e.bool(watched)
	seen := s.zxids.last() // no answer to come is older
	return newRequest(opGetChildren2, e, func(in *decoder) (*list, error) {
		l := &list{names: in.strings(), born: in.long()}
		in.take(statBytes - 2*8)
		l.asOf = max(in.long(), seen) // a stat ends with the transaction that changed the children last
		return l, nil
	})
}

// children lists a directory as the session's server knows it, which is not before what the session did last.
func (s *session) children(ctx context.Context, dir string) (*list, error) {
	return s.list(ctx, dir, false, false)
}

// watchedChildren does so, too, and has the next change told.
func (s *session) watchedChildren(ctx context.Context, dir string) (*list, error) {
	return s.list(ctx, dir, true, false)
}

// freshChildren lists a directory as the leader knows it now.
func (s *session) freshChildren(ctx context.Context, dir string) (*list, error) {
	return s.list(ctx, dir, false, true)
}

func (s *session) list(ctx context.Context, dir string, watched, fresh bool) (*list, error) {
	l, err := persist(ctx, s, func() (*list, error) {
		if err := s.enter(ctx); err != nil {
			return nil, err
		}
		defer s.exit()
		w := s.spoken.Load()
		look, looked := s.listRequest(dir, watched)
		if !fresh {
			w.send(look)
			return answer(ctx, s, looked)
		}
		// On one connection: another server may lag behind the one that was told to catch up.
		sync, synced := syncRequest(dir)
		w.send(sync, look)
		if _, err := answer(ctx, s, synced); err != nil {
			return nil, err
		}
		return answer(ctx, s, looked)
	})
	return l, explain(err, "listing", dir, "READ", "")
}
