package kube

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// memory is one stretch of time in which the cluster has forgotten nothing. It has a mark, a lease of ours whose uid names it.
// When a backup of etcd is put back, revisions that were seen come again: a write, or a list, is then older than what had been
// seen before it was sent, and so is a lease that was changed since the backup. Whoever notices deletes the mark and makes
// another one, so that all who look at it know.
type memory struct {
	uid      string
	age      time.Duration // since the mark was made, by the API server's clock
	revision driverkit.Max // how far etcd is known to have come
	seen     storekit.Seen[stand]
	wentBack atomic.Bool // the cluster has gone back behind what we have seen

	over context.Context // ends with the memory
	end  context.CancelFunc
}

func (m *memory) ID() string         { return m.uid }
func (m *memory) For() time.Duration { return m.age }

// markName is the name of the mark. No register's lease has it.
func (s *Store) markName() string { return s.root + "-memory" }

const (
	layoutKey = "turnwise/layout"
	layout    = "1"
)

// Memory says that the cluster has remembered everything since it was first used, or since somebody noticed that it was put
// back to an earlier state.
func (s *Store) Memory(ctx context.Context) (register.Memory, error) {
	mem, err := s.recall(ctx)
	return mem, s.failed(ctx, err, "look for the mark of the memory")
}

func (s *Store) recall(ctx context.Context) (register.Memory, error) {
	mem, err := s.known.Recall(ctx, func(last *memory) (*memory, error) {
		m, err := s.look(ctx, last)
		if err == nil && last != nil && last != m {
			s.forgot(last, "the mark")
		}
		return m, err
	})
	return mem, s.explain(err)
}

// mostMarks is how often the mark may be another one while it is looked at.
const mostMarks = 7

// look finds out which memory there is, or begins one.
func (s *Store) look(ctx context.Context, last *memory) (*memory, error) {
	for range mostMarks {
		var mark lease
		date, err := s.askDated(ctx, request{method: http.MethodGet, name: s.markName()}, &mark)
		if isMissing(err, s.markName()) {
			if err = s.makeMark(ctx); err == nil || isStatus(err, http.StatusConflict) {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		if is := mark.Metadata.Annotations[layoutKey]; is != layout || mark.Metadata.UID == "" {
			return nil, storekit.Denied("the lease %s is of another version of turnwise, or not ours: name another root with WithRoot", s.markName())
		}
		if stays, err := s.untie(ctx, &mark); err != nil {
			return nil, err
		} else if !stays {
			continue
		}
		m := last
		switch uid := mark.Metadata.UID; {
		case last != nil && last.uid == uid && last.wentBack.Load():
			// Somebody else may have put another one there by now, which stays.
			if err := s.ask(ctx, deletion(s.markName(), stand{uid: uid}), nil); err != nil && !isStale(err) {
				return nil, err
			}
			continue
		case last == nil || last.uid != uid:
			m = &memory{uid: uid}
			m.over, m.end = context.WithCancel(s.life.Context())
		}
		m.age = s.ageOf(date.Sub(mark.Metadata.Created), date)
		return m, nil
	}
	return nil, errLostMark
}

// untie sees to it that the mark goes with nothing else, and when it was deleted at once: whoever may make leases may have made it.
// It reports whether the mark is as it should be.
func (s *Store) untie(ctx context.Context, mark *lease) (done bool, err error) {
	switch m := mark.Metadata; {
	case !m.Going.IsZero():
		return false, s.finish(ctx, m)
	case m.isTied():
		own := s.newMark()
		own.Metadata.UID, own.Metadata.ResourceVersion = m.UID, m.ResourceVersion
		err := s.ask(ctx, request{method: http.MethodPut, name: m.Name, body: own}, nil)
		if isStale(err) {
			err = nil
		}
		return false, err
	}
	return true, nil
}

// ageOf rounds down what two whole seconds of a clock make. What is older than anybody's session counts as without an end. It is negative
// if the clock was set back, or says no date.
func (s *Store) ageOf(age time.Duration, now time.Time) time.Duration {
	switch {
	case now.IsZero():
		return -time.Second
	case age < 0:
		return age
	case age-time.Second > 2*s.Longest:
		return register.Forever
	}
	return max(age-time.Second, 0)
}

func (s *Store) makeMark(ctx context.Context) error {
	return s.ask(ctx, request{method: http.MethodPost, body: s.newMark()}, &lease{})
}

func (s *Store) newMark() *lease {
	return &lease{APIVersion: group, Kind: "Lease", Metadata: metadata{
		Name: s.markName(), Labels: map[string]string{rootLabel: s.root}, Annotations: map[string]string{layoutKey: layout},
	}}
}

// tryRights asks the server to change and to delete the mark, and not to do it after all. What the changed one would be shows whether all
// is stored as it is sent, labels as well: a lease without them is in no list, and its notes are told to nobody.
func (s *Store) tryRights(ctx context.Context, known *memory) error {
	var mark, is lease
	dry := url.Values{"dryRun": {"All"}}
	err := s.ask(ctx, request{method: http.MethodGet, name: s.markName()}, &mark)
	if err == nil {
		like := s.compose(&register.Swap{Key: "rights/", Next: register.NewVersion(), Value: []byte{1}, Notes: []register.Note{{Topic: "rights/", Text: []byte{1}}}},
			stand{uid: mark.Metadata.UID, revision: mark.Metadata.ResourceVersion})
		like.Metadata.Name = s.markName()
		err = s.ask(ctx, request{method: http.MethodPut, name: s.markName(), query: dry, body: like}, &is)
		if what := like.Metadata.lacks(&is.Metadata); err == nil && what != "" {
			err = storekit.Denied("the API server would store a lease with another %s than was sent: does a webhook change leases?", what)
		}
	}
	if err == nil || isStale(err) {
		err = s.ask(ctx, notReally(deletion(s.markName(), stand{uid: known.uid})), nil)
	}
	if isStale(err) { // it is another one by now, and we may do it
		return nil
	}
	return s.explain(err)
}

// notReally turns a deletion into one that is only tried. In the URL that would not count, since there is a body.
func notReally(q request) request {
	q.body.(map[string]any)["dryRun"] = []string{"All"}
	return q
}

// saw takes in the revision that an answer has, which is least or more unless the cluster has gone back: what had been seen
// before the request was sent, and for a write one more.
func (s *Store) saw(known *memory, least int64, revision string) error {
	n, err := strconv.ParseInt(revision, 10, 64)
	if err != nil {
		return nil // not etcd: nothing can be told from it
	}
	if n < least {
		return s.forgot(known, "the revision")
	}
	known.revision.Saw(n)
	return nil
}

func isEarlier(revision, than string) bool {
	n, err := strconv.ParseInt(revision, 10, 64)
	m, e := strconv.ParseInt(than, 10, 64)
	return err == nil && e == nil && n < m
}

// forgot makes all calls fail until Memory is called. what has shown it.
func (s *Store) forgot(known *memory, what string) error {
	known.wentBack.Store(true)
	if s.known.Forget(known) {
		s.Log.Warn("kube: the cluster has gone back to an earlier state, or somebody has deleted our leases", "shown by", what)
	}
	known.end()
	return register.ErrForgot
}
