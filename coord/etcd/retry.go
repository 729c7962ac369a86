package etcd

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
)

const (
	// shortTry is how long one try of a request may take on a healthy service. A frozen member does not answer although its
	// connection stands, and a request sent during a fail-over is never answered although the new leader is up. The next try
	// goes to the next member.
	shortTry = 600 * time.Millisecond

	// longTry is how long a try may last when the service is slow, so that slow is not mistaken for dead.
	longTry = 5 * time.Second

	// requestTimeout leaves time for a try at a frozen member, and then two more.
	requestTimeout = 2 * time.Second
)

// pace says how long a try may take, judging by earlier tries. All requests of a driver share it.
type pace struct{ patience atomic.Int64 }

func (p *pace) limit() time.Duration {
	return min(max(time.Duration(p.patience.Load()), shortTry), longTry)
}

// answered and timedOut are balanced so that one frozen member of three does not slow down the tries at the other two,
// while a service that is slow as a whole soon gets the time it needs.
func (p *pace) answered(after time.Duration) {
	p.patience.Store(int64(max(4*after, p.limit()*7/10)))
}

func (p *pace) timedOut() { p.patience.Store(int64(p.limit() * 3 / 2)) }

// once makes one try of a request.
func (d *service) once(ctx context.Context, do func(context.Context) error) error {
	// A deadline would be sent along with each request, and cost the service a timer.
	try, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(ctx.Err()) })()
	defer time.AfterFunc(d.pace.limit(), func() { cancel(context.DeadlineExceeded) }).Stop()
	begun := time.Now()
	err := do(try)
	switch {
	case err == nil:
		d.pace.answered(time.Since(begun))
	case try.Err() != nil:
		err = context.Cause(try)
		if ctx.Err() == nil {
			d.pace.timedOut()
		}
	}
	return err
}

// retry makes a request that does no harm when it is applied twice. It tries until there is an answer, or a final error, or
// ctx ends.
func (d *service) retry(ctx context.Context, what string, do func(context.Context) error) error {
	if err := d.persist(ctx, do); err != nil {
		return failed(what, err)
	}
	return nil
}

func (d *service) persist(ctx context.Context, do func(context.Context) error) error {
	if ctx.Err() != nil {
		return unanswered(ctx, nil)
	}
	var last error // the service's last error
	tokens := 0
	for tries := 0; ; tries++ {
		err := d.once(ctx, do)
		if err == nil {
			return nil
		}
		passes := classify(err) == passing
		switch {
		case ctx.Err() != nil:
			if passes && codeOf(err) != codeOf(ctx.Err()) {
				last = err
			}
			return unanswered(ctx, last)
		case is(err, rpctypes.ErrInvalidAuthToken) && tokens < maxTokens:
			tokens++
		case !passes:
			return d.explain(err)
		default:
			last = d.trouble(ctx, err)
		}
		if driverkit.Sleep(ctx, driverkit.Jitter(driverkit.Pause(tries))) != nil {
			return unanswered(ctx, last)
		}
	}
}

// trouble returns what is wrong with the connection, instead of just a timeout, if it is down.
func (d *service) trouble(ctx context.Context, err error) error {
	if codeOf(err) != codes.DeadlineExceeded || d.conn.GetState() != connectivity.TransientFailure {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, shortTry) // the obstacle is already known
	defer cancel()
	if why := unreached(ctx, d.conn); why != nil {
		return why
	}
	return err
}

// maxTokens is how many times a request may be refused because of its token. Tokens become invalid when a server is
// restarted; the client fetches a new one for the next try.
const maxTokens = 3

// bundle is how many operations that belong together share a transaction. By default etcd takes 128; a service that takes
// fewer says so.
type bundle struct{ less atomic.Int64 }

const perTransaction = 64

func (b *bundle) size() int { return perTransaction - int(b.less.Load()) }

// halve is for when so many were refused. It returns false if there was only one.
func (b *bundle) halve(refused int) bool {
	b.less.Store(max(b.less.Load(), int64(perTransaction-max(refused/2, 1))))
	return refused > 1
}

// gate lets through as many at a time as it has room for.
type gate chan struct{}

func (g gate) enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return unanswered(ctx, nil)
	}
}

func (g gate) exit() { <-g }

// errNonsense is for an answer that lacks what was asked for. It counts as a lost one: it may come from something other
// than etcd, or from somebody in between. So all requests go through txn, get and put.
var errNonsense = errors.New("the answer makes no sense")

func (d *service) txn(ctx context.Context, ifs []clientv3.Cmp, then, instead []clientv3.Op) (*clientv3.TxnResponse, error) {
	answer, err := d.kv.Txn(ctx).If(ifs...).Then(then...).Else(instead...).Commit()
	if err != nil {
		return nil, err
	}
	asked := instead
	if answer.Succeeded {
		asked = then
	}
	if answer.Header.GetRevision() <= 0 || !answer.Succeeded && len(ifs) == 0 || len(answer.Responses) != len(asked) {
		return nil, errNonsense
	}
	for i, op := range asked {
		found := answer.Responses[i].GetResponseRange()
		if op.IsGet() && (found == nil || !sane(answer.Header, found.GetKvs())) {
			return nil, errNonsense
		}
	}
	return answer, nil
}

func (d *service) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	got, err := d.kv.Get(ctx, key, opts...)
	if err == nil && !sane(got.Header, got.Kvs) {
		return nil, errNonsense
	}
	return got, err
}

func (d *service) put(ctx context.Context, key, value string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	done, err := d.kv.Put(ctx, key, value, opts...)
	if err == nil && done.Header.GetRevision() <= 0 {
		return nil, errNonsense
	}
	return done, err
}

// sane reports whether such keys can exist at the revision of the answer.
func sane(header *pb.ResponseHeader, kvs []*mvccpb.KeyValue) bool {
	return header.GetRevision() > 0 && !slices.ContainsFunc(kvs, func(kv *mvccpb.KeyValue) bool {
		return kv.GetCreateRevision() <= 0 || kv.GetModRevision() < kv.GetCreateRevision() || kv.GetModRevision() > header.GetRevision()
	})
}
