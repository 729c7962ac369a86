package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// conn is one connection to one run of one server. The client library is not to make it anew by itself: behind the next one there
// may be a server that has forgotten, and a swap must not go there before that is known.
type conn struct {
	nc    *natsgo.Conn
	run   string                 // the server's ID, which is another one after each start
	name  string                 // what it is called
	most  int                    // how large a message it takes: the library says so no sooner than what it sends is read
	up    time.Time              // since when the server has run, if its monitor has said so
	known atomic.Pointer[memory] // that it was seen to lead to

	over context.Context // ends with the connection
	end  context.CancelCauseFunc

	mu      sync.Mutex
	calls   map[*call]struct{}
	clock   time.Time // the server's, when it was asked last
	sampled time.Time
}

// call is a request that waits for its answer.
type call struct {
	subject string
	refuse  context.CancelCauseFunc
}

const (
	// dialFor bounds each attempt to connect.
	dialFor = 3 * time.Second

	// pingEvery is how often the server is asked whether it is there. After two that were not answered the connection is over.
	pingEvery = 2 * time.Second

	// leastPayload is the smallest max_payload of a server that will do.
	leastPayload = 512 << 10
)

// stuckFor is how long the server may read nothing of what is sent to it, as long as it may leave pings unanswered.
const stuckFor = 3 * pingEvery

// dial makes a connection, checks whom it leads to, and listens to what is told there.
func (s *Store) dial(ctx context.Context) (*conn, error) {
	c := &conn{calls: make(map[*call]struct{})}
	c.over, c.end = context.WithCancelCause(ctx)
	nc, err := s.connect(c.over, c.end, func(err error) { s.trouble(c, err) })
	if err != nil {
		c.end(err)
		return nil, err
	}
	c.nc, c.run, c.name, c.most = nc, nc.ConnectedServerId(), nc.ConnectedServerName(), int(nc.MaxPayload())
	if err = c.check(); err == nil {
		err = s.prove(ctx, c)
	}
	var e *earshot
	if err == nil {
		if e, err = s.hear(c); err != nil && !errors.Is(err, natsgo.ErrPermissionViolation) {
			s.Log.Warn("nats: nothing is heard of swaps, trying on", "err", storekit.OneLine(err))
			err = nil // requests do not depend on it
		}
	}
	if err == nil {
		err = context.Cause(c.over)
	}
	if err == nil && !s.life.Go(func() { s.keepHearing(c, e) }) {
		err = storekit.ErrClosed
	}
	if err != nil {
		c.end(err)
		nc.Close()
		return nil, err
	}
	return c, nil
}

// connect makes a connection of the client library's. It lasts for as long as over at most, and ends that with the reason why it
// is lost. What the library reports beside the answers is trouble.
func (s *Store) connect(over context.Context, end context.CancelCauseFunc, trouble func(error)) (*natsgo.Conn, error) {
	o := s.options
	o.AllowReconnect, o.RetryOnFailedConnect = false, false
	o.PingInterval, o.MaxPingsOut, o.Timeout, o.FlusherTimeout = pingEvery, 2, dialFor, stuckFor
	o.IgnoreDiscoveredServers = true
	o.InboxPrefix = s.root + ".inbox"
	o.ClosedCB = func(nc *natsgo.Conn) { end(errors.Join(errCut, nc.LastError())) }
	o.AsyncErrorCB = func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) { trouble(err) }
	o.DisconnectedErrCB, o.DisconnectedCB, o.ConnectedCB, o.ReconnectedCB, o.DiscoveredServersCB, o.LameDuckModeHandler = nil, nil, nil, nil, nil, nil
	way := &endingDialer{ctx: over, other: o.CustomDialer, dialer: o.Dialer, first: o.TLSHandshakeFirst} //nolint:staticcheck // some set that
	o.CustomDialer = way
	nc, err := o.Connect()
	if err != nil {
		if errors.Is(err, natsgo.ErrNoServers) && way.err != nil {
			err = way.err
		}
		return nil, err
	}
	context.AfterFunc(over, nc.Close)
	return nc, nil
}

// check refuses a server that cannot do what is needed.
func (c *conn) check() error {
	has, level := c.nc.ConnectedServerJetStream()
	cluster := c.nc.ConnectedClusterName()
	switch {
	case !c.nc.IsConnected(): // it is over already, and then the library knows nothing of the server
		return errCut
	case !has:
		return storekit.Denied("the server has no JetStream: write jetstream { store_dir: … } into its configuration")
	case level < 1:
		return storekit.Denied("it is NATS %s; it takes 2.12 or newer", c.nc.ConnectedServerVersion())
	case cluster != "":
		return storekit.Denied("the server is one of a cluster, of which nobody can tell whether it has forgotten something: use a server of its own")
	case c.most < leastPayload:
		return storekit.Denied("the server takes messages of %d bytes; max_payload must be %d or more", c.most, leastPayload)
	}
	return nil
}

// maxVarz bounds what a monitor may say.
const maxVarz = 1 << 20

// prove asks the server's monitor whether the server waits for its disk.
func (s *Store) prove(ctx context.Context, c *conn) error {
	if s.monitor == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialFor)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.monitor+"/varz", nil)
	if err != nil {
		return err
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // it would be another's word
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the monitor: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols { // the body is the bare connection, which heeds no ctx
		return fmt.Errorf("ask the monitor: %s: is that the monitoring port of the server?", resp.Status)
	}
	var says struct {
		ID        string    `json:"server_id"`
		Start     time.Time `json:"start"`
		Now       time.Time `json:"now"`
		JetStream struct {
			Config struct {
				SyncAlways bool `json:"sync_always"`
			} `json:"config"`
		} `json:"jetstream"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxVarz)).Decode(&says); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("ask the monitor: %s: %w", resp.Status, errors.Join(err, errors.New("is that the monitoring port of the server?")))
	}
	switch {
	case says.ID != c.run:
		return fmt.Errorf("the monitor is of the server %.100q, and we are connected to %.100q", says.ID, c.run)
	case !says.JetStream.Config.SyncAlways:
		return storekit.Denied("the server answers before a write is on its disk: write sync_interval: always into jetstream { }, or do without WithMonitor")
	}
	c.up = time.Now().Add(-says.Now.Sub(says.Start))
	return nil
}

// trouble is what the client library reports beside the answers.
func (s *Store) trouble(c *conn, err error) {
	switch {
	case errors.Is(err, natsgo.ErrPermissionViolation) && strings.Contains(err.Error(), "Subscription to"):
		c.end(err) // without it no answers are heard
	case errors.Is(err, natsgo.ErrPermissionViolation):
		c.refused(err)
	}
}

// refused ends the calls whose requests the user has no right to send. The server gives no other answer to them.
func (c *conn) refused(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for q := range c.calls {
		if strings.Contains(err.Error(), `"`+q.subject+`"`) {
			q.refuse(err)
		}
	}
}

// request sends a message and returns the answer. If the connection ends meanwhile, it is open whether the message has arrived. The
// library heeds no context while a server does not read what is sent to it.
func (c *conn) request(ctx context.Context, m *natsgo.Msg) (*natsgo.Msg, error) {
	within, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	defer context.AfterFunc(c.over, func() { refuse(context.Cause(c.over)) })()
	q := &call{m.Subject, refuse}
	c.mu.Lock()
	c.calls[q] = struct{}{}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.calls, q)
		c.mu.Unlock()
	}()
	type reply struct {
		m   *natsgo.Msg
		err error
	}
	replied := make(chan reply, 1)
	go func() {
		answer, err := c.nc.RequestMsgWithContext(within, m)
		replied <- reply{answer, err}
	}()
	select {
	case r := <-replied:
		if r.err == nil || ctx.Err() != nil || within.Err() == nil {
			return r.m, r.err
		}
	case <-within.Done():
	}
	return nil, context.Cause(within)
}

// api asks JetStream for something.
func (c *conn) api(ctx context.Context, what string, in, out any) error {
	m := natsgo.NewMsg("$JS.API." + what)
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		m.Data = b
	}
	answer, err := c.request(ctx, m)
	if errors.Is(err, natsgo.ErrNoResponders) {
		if c.known.Load() != nil {
			return errors.New("JetStream does not answer any more")
		}
		return storekit.Denied("JetStream does not answer: is it enabled for this account?")
	}
	if err != nil {
		return err
	}
	return decode(answer.Data, out)
}

// maxCommas is how many an answer may have outside of texts: a page of subjects has a hundred thousand. What is decoded may be much
// larger than "","","" is.
const maxCommas = 1 << 18

// decode reads an answer, which may be that the server has refused.
func decode(data []byte, out any) error {
	var refusal struct{ Error *apiError }
	var commas storekit.Commas
	if len(data) > maxCommas {
		commas.Count(data)
	}
	if commas.N > maxCommas {
		return fmt.Errorf("an answer of more than %d parts", maxCommas)
	}
	if err := json.Unmarshal(data, &refusal); err != nil {
		return fmt.Errorf("an answer that makes no sense: %.100q", data)
	}
	if refusal.Error != nil {
		return refusal.Error
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

// link is the way to the server: the connection that there is, or the news about it.
type link struct {
	mu   sync.Mutex
	cur  *conn
	err  error
	next chan struct{} // closed when that changes
}

// get returns the connection. If there is none, it waits for the attempt to make one that is under way.
func (l *link) get(ctx context.Context, life *driverkit.Life) (*conn, error) {
	l.mu.Lock()
	c, next := l.cur, l.next
	l.mu.Unlock()
	if c != nil && c.over.Err() == nil {
		return c, nil
	}
	select {
	case <-next:
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return nil, errors.Join(ctx.Err(), l.err)
	case <-life.Done():
		return nil, storekit.ErrClosed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cur == nil {
		return nil, l.err
	}
	return l.cur, nil
}

func (l *link) set(c *conn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cur, l.err = c, err
	close(l.next)
	l.next = make(chan struct{})
}

// keepConnected makes a connection, and another one when that is over, as long as the store is open.
func (s *Store) keepConnected() {
	ctx := s.life.Context()
	var said string
	for tries := 0; ctx.Err() == nil; tries++ {
		c, err := s.dial(ctx)
		if err = explain(err); err != nil {
			if text := err.Error(); text != said && ctx.Err() == nil {
				s.Log.Debug("nats: no connection, trying on", "err", storekit.OneLine(err))
				said = text
			}
			s.link.set(nil, err)
			wait := driverkit.Pause(tries)
			if errors.Is(err, driver.ErrDenied) {
				wait = driverkit.Pause(driverkit.Slowly)
			}
			if driverkit.Sleep(ctx, driverkit.Jitter(wait)) != nil {
				return
			}
			continue
		}
		tries, said = -1, ""
		s.link.set(c, nil)
		s.ears.missed() // what was told while there was no connection
		<-c.over.Done()
		c.nc.Close()
		s.link.set(nil, explain(context.Cause(c.over)))
	}
}

// endingDialer dials for as long as a context lasts, and closes what it has dialled when that ends. So a server that says nothing
// holds up no Close.
type endingDialer struct {
	ctx    context.Context
	other  natsgo.CustomDialer // the user's, or nil
	dialer *net.Dialer         // likewise
	first  bool                // TLS comes first
	err    error               // of the last attempt, which the library does not tell
}

func (d *endingDialer) Dial(network, address string) (net.Conn, error) {
	nc, err := d.dial(network, address)
	if err != nil {
		d.err = err
		return nil, err
	}
	stop := context.AfterFunc(d.ctx, func() { _ = nc.Close() })
	return &endingConn{&vetted{Conn: nc, tlsFirst: d.first}, stop}, nil
}

func (d *endingDialer) dial(network, address string) (net.Conn, error) {
	if d.other != nil {
		return d.other.Dial(network, address)
	}
	own := net.Dialer{Timeout: dialFor}
	if d.dialer != nil {
		own = *d.dialer
	}
	return own.DialContext(d.ctx, network, address)
}

type endingConn struct {
	net.Conn
	stop func() bool
}

func (c *endingConn) Close() error {
	c.stop()
	return c.Conn.Close()
}
