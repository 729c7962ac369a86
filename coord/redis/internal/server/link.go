package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

// A connection to the server is made when it is needed, and made again after it was lost. The client library would do that
// as well, but there a call that needs a new connection waits for it beyond its ctx.
type connection struct {
	client rueidis.Client
	hooks  rueidis.PubSubHooks
	up     atomic.Pointer[link]

	mu      sync.Mutex
	dialing chan struct{} // closed when the attempt under way is over
	failed  error         // why the last attempt failed
	closed  bool
	running sync.WaitGroup
}

// A link is a connection that stands.
type link struct {
	rueidis.DedicatedClient
	down chan struct{} // closed when it is lost
	end  func()        // closes it
}

func newConnection(client rueidis.Client, hooks rueidis.PubSubHooks) *connection {
	if hooks.OnMessage == nil {
		hooks.OnMessage = func(rueidis.PubSubMessage) {} // with a hook the library tells of the loss, and heeds each ctx
	}
	return &connection{client: client, hooks: hooks}
}

var errLost = errors.New("the connection was lost")

// get returns the connection, and makes it if there is none.
func (c *connection) get(ctx context.Context) (*link, error) {
	if up := c.up.Load(); up != nil {
		return up, nil
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, storekit.ErrClosed
	}
	if up := c.up.Load(); up != nil {
		c.mu.Unlock()
		return up, nil
	}
	if c.dialing == nil { // all who wait share one attempt
		c.dialing = make(chan struct{})
		c.running.Go(c.dial)
	}
	dialing := c.dialing
	c.mu.Unlock()
	select {
	case <-dialing:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if up := c.up.Load(); up != nil {
		return up, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return nil, c.failed
	}
	return nil, errLost
}

// comes reports whether there is a connection, or one can be made in half of the time that ctx leaves. A server that others have
// filled gives nobody another.
func (c *connection) comes(ctx context.Context) bool {
	ctx, cancel := storekit.HalfOf(ctx)
	defer cancel()
	_, err := c.get(ctx)
	return err == nil
}

// dialTimeout bounds an attempt to connect, and a subscription. No caller's ctx does: others wait for the same.
const dialTimeout = 5 * time.Second

// dial makes a connection, and has it closed when it is lost or ended. The library connects at the first command.
func (c *connection) dial() {
	dedicated, _ := c.client.Dedicate()
	lost := dedicated.SetPubSubHooks(c.hooks)
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	err := dedicated.Do(ctx, dedicated.B().Ping().Build()).Error()
	cancel()

	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { close(c.dialing); c.dialing = nil }()
	if c.failed = err; err == nil && c.closed {
		err = storekit.ErrClosed
	}
	ended := make(chan struct{})
	up := &link{dedicated, make(chan struct{}), sync.OnceFunc(func() { close(ended) })}
	if err == nil {
		c.up.Store(up)
	} else {
		up.end()
	}
	c.running.Go(func() {
		select {
		case <-lost:
		case <-ended:
		}
		c.up.CompareAndSwap(up, nil)
		close(up.down)
		dedicated.Close()
	})
}

// drop ends the connection that stands, if any. The next request makes a new one.
func (c *connection) drop() {
	if up := c.up.Load(); up != nil {
		up.end()
	}
}

// close ends the connection, and waits until nothing uses the client any more: that may be the caller's.
func (c *connection) close() {
	c.mu.Lock()
	c.closed = true
	up := c.up.Load()
	c.mu.Unlock()
	if up != nil {
		up.end()
	}
	c.running.Wait()
}

// run has the server run a script whose first argument is first. An error leaves open whether it did.
func (c *connection) run(ctx context.Context, s *Script, keys []string, first string, args []string) (rueidis.RedisMessage, error) {
	up, err := c.get(ctx)
	if err != nil {
		return rueidis.RedisMessage{}, explain(err)
	}
	n := int64(len(keys))
	reply, err := up.Do(ctx, up.B().Evalsha().Sha1(s.sha).Numkeys(n).Key(keys...).Arg(first).Arg(args...).Build()).ToMessage()
	if answer, ok := rueidis.IsRedisErr(err); ok && answer.IsNoScript() {
		reply, err = up.Do(ctx, up.B().Eval().Script(s.text).Numkeys(n).Key(keys...).Arg(first).Arg(args...).Build()).ToMessage()
	}
	if err != nil {
		if _, answered := rueidis.IsRedisErr(err); !answered && ctx.Err() == nil {
			up.end() // it may be half dead: the next request makes a new one
		}
		return rueidis.RedisMessage{}, explain(err)
	}
	return reply, nil
}
