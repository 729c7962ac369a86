package faultproxy_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/turnwise/turnwise/verify/faultproxy"
)

const (
	soon = 10 * time.Second       // for what must happen
	long = 100 * time.Millisecond // for what must not
)

// echo is a server that sends back every line it hears, and reports which it heard.
type echo struct {
	addr  string
	heard chan string
	ended chan error // how each connection ended
}

func startEcho(t *testing.T) *echo {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &echo{addr: l.Addr().String(), heard: make(chan string, 100), ended: make(chan error, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go e.serve(conn)
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return e
}

func (e *echo) serve(conn net.Conn) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			e.ended <- err
			return
		}
		e.heard <- line
		_, _ = io.WriteString(conn, line)
	}
}

// client speaks in lines too.
type client struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, p *faultproxy.Proxy) *client {
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) say(line string) {
	_, err := io.WriteString(c.conn, line)
	require.NoError(c.t, err)
}

func (c *client) hears(line string) {
	c.t.Helper()
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(soon)))
	got, err := c.in.ReadString('\n')
	require.NoError(c.t, err)
	require.Equal(c.t, line, got)
}

func (c *client) hearsNothing() {
	c.t.Helper()
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(long)))
	_, err := c.in.Peek(1)
	require.ErrorIs(c.t, err, os.ErrDeadlineExceeded)
}

func (c *client) isReset() {
	c.t.Helper()
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(soon)))
	_, err := c.in.ReadByte()
	require.ErrorIs(c.t, err, syscall.ECONNRESET)
}

// dialIsReset checks that the reset comes before the dial returns, or right after it.
func dialIsReset(t *testing.T, p *faultproxy.Proxy) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err == nil {
		defer conn.Close()
		_, err = conn.Read(make([]byte, 1))
	}
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func (e *echo) hears(t *testing.T, line string) {
	t.Helper()
	select {
	case got := <-e.heard:
		require.Equal(t, line, got)
	case <-time.After(soon):
		t.Fatalf("the server did not hear %q", line)
	}
}

func (e *echo) hearsNothing(t *testing.T) {
	t.Helper()
	select {
	case got := <-e.heard:
		t.Fatalf("the server heard %q", got)
	case err := <-e.ended:
		t.Fatalf("the server's connection ended: %v", err)
	case <-time.After(long):
	}
}

func (e *echo) endsWith(t *testing.T, want error) {
	t.Helper()
	select {
	case err := <-e.ended:
		require.True(t, errors.Is(err, want), "ended with %v", err)
	case <-time.After(soon):
		t.Fatal("the server's connection did not end")
	}
}

// start also checks, at the end of the test, that nothing of the proxy is left.
func start(t *testing.T) (*echo, *faultproxy.Proxy) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	e := startEcho(t)
	p := faultproxy.Start(t, e.addr)
	return e, p
}

func TestInGoodOrderEverythingPasses(t *testing.T) {
	e, p := start(t)
	c := dial(t, p)
	c.say("hello\n")
	c.hears("hello\n")
	require.EqualValues(t, 6, p.Bytes(faultproxy.ToServer))
	require.EqualValues(t, 6, p.Bytes(faultproxy.ToClient))
	require.Equal(t, 1, p.Accepted())
	require.Equal(t, 1, p.Open())

	c.conn.Close()
	e.endsWith(t, io.EOF)
	require.Eventually(t, func() bool { return p.Open() == 0 }, soon, time.Millisecond)
}

func TestAStallTowardsTheServerDeliversLate(t *testing.T) {
	e, p := start(t)
	c := dial(t, p)
	p.Stall(faultproxy.ToServer)
	c.say("late\n")
	e.hearsNothing(t)
	p.Heal()
	e.hears(t, "late\n")
	c.hears("late\n")
}

func TestAStallTowardsTheClientKeepsAnswersBack(t *testing.T) {
	e, p := start(t)
	c := dial(t, p)
	p.Stall(faultproxy.ToClient)
	c.say("applied\n")
	e.hears(t, "applied\n")
	c.hearsNothing()
	p.Heal()
	c.hears("applied\n")
}

func TestOneDirectionIsReleased(t *testing.T) {
	e, p := start(t)
	c := dial(t, p)
	p.Stall()
	c.say("late\n")
	e.hearsNothing(t)
	p.Release(faultproxy.ToServer)
	e.hears(t, "late\n")
	c.hearsNothing()
	p.Release()
	c.hears("late\n")
}

func TestWhatIsStalledBeforeAndAfterAChangeStaysStalled(t *testing.T) {
	e, p := start(t)
	c := dial(t, p)
	p.Stall(faultproxy.ToClient)
	c.say("applied\n")
	e.hears(t, "applied\n")
	for range 100 {
		p.Together(func() {
			p.Heal()
			p.Stall(faultproxy.ToClient)
		})
	}
	c.hearsNothing()
	p.Heal()
	c.hears("applied\n")
}

func TestTheServerDoesNotLearnOfAnEndThatIsStalled(t *testing.T) {
	e, p := start(t)
	c := dial(t, p)
	c.say("hello\n")
	e.hears(t, "hello\n")
	p.Stall(faultproxy.ToServer)
	c.say("last words\n")
	c.conn.Close()
	e.hearsNothing(t)
	p.Heal()
	e.hears(t, "last words\n")
	<-e.ended // by EOF or by a reset, as the answer meets a closed connection
}

func TestCutAfterAStallLosesWhatWasKeptBack(t *testing.T) {
	e, p := start(t)
	c := dial(t, p)
	c.say("hello\n")
	c.hears("hello\n")
	e.hears(t, "hello\n")
	p.Stall(faultproxy.ToServer)
	c.say("lost\n")
	e.hearsNothing(t)
	p.Cut()
	c.isReset()
	e.endsWith(t, syscall.ECONNRESET)
	p.Heal()
	e.hearsNothing(t)

	dial(t, p).say("again\n")
	e.hears(t, "again\n")
}

func TestABlackholeSwallowsNewConnectionsToo(t *testing.T) {
	e, p := start(t)
	before := dial(t, p)
	before.say("hello\n")
	before.hears("hello\n")
	e.hears(t, "hello\n")
	p.Blackhole()
	before.say("one\n")
	during := dial(t, p)
	during.say("two\n")
	e.hearsNothing(t)
	during.hearsNothing()
	p.Heal()
	before.hears("one\n")
	during.hears("two\n")
}

func TestAFrozenServerAcceptsAndSaysNothing(t *testing.T) {
	e, p := start(t)
	old := dial(t, p)
	old.say("hello\n")
	old.hears("hello\n")
	e.hears(t, "hello\n")
	p.Freeze()
	c := dial(t, p)
	c.say("anybody there?\n")
	e.hearsNothing(t)
	old.say("still here\n")
	old.hears("still here\n")
	p.Heal()
	c.hears("anybody there?\n")
}

func TestRefusedConnectionsAreReset(t *testing.T) {
	_, p := start(t)
	p.Refuse()
	dialIsReset(t, p)
	require.Zero(t, p.Accepted())
	p.Heal()
	c := dial(t, p)
	c.say("hello\n")
	c.hears("hello\n")
}

func TestAServerThatIsDownResetsItsClients(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	dialIsReset(t, faultproxy.Start(t, l.Addr().String()))
}

func TestADelayShiftsAndDoesNotThrottle(t *testing.T) {
	_, p := start(t)
	c := dial(t, p)
	p.Delay(100 * time.Millisecond)
	began := time.Now()
	for range 50 {
		c.say("tick\n")
	}
	for range 50 {
		c.hears("tick\n")
	}
	took := time.Since(began)
	require.GreaterOrEqual(t, took, 200*time.Millisecond)
	require.Less(t, took, 5*time.Second, "50 round trips one after the other would take 10 s")
}

func TestCloseWaitsForNobody(t *testing.T) {
	_, p := start(t)
	for range 3 {
		dial(t, p).say("unfinished")
	}
	p.Stall()
	p.Freeze()
	dial(t, p)
	p.Close()
	require.Zero(t, p.Open())
}
