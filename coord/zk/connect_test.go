package zk

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/drivertest"
	"github.com/turnwise/turnwise/verify/faultproxy/zkwire"
	"github.com/turnwise/turnwise/verify/servers"
)

var exclusive = coord.Rule{WaitFor: rules.Exclusive}

// listen answers each connection in its own way until the test ends.
func listen(t *testing.T, answer func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				answer(c)
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().String()
}

func fails(t *testing.T, within time.Duration, servers []string, opts ...Option) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	start := time.Now()
	c, err := Connect(ctx, servers, opts...)
	if err == nil {
		c.Close()
	}
	require.Error(t, err)
	require.Less(t, time.Since(start), within+2*time.Second)
	return err
}

func TestConnectWhereNobodyListens(t *testing.T) {
	addr := listen(t, func(net.Conn) {})
	err := fails(t, 300*time.Millisecond, []string{"127.0.0.1:1", addr})
	require.ErrorIs(t, err, coord.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "127.0.0.1:1")
}

func TestConnectWhereNobodyAnswers(t *testing.T) {
	over := make(chan struct{})
	addr := listen(t, func(net.Conn) { <-over })
	defer close(over)
	err := fails(t, 300*time.Millisecond, []string{addr})
	require.ErrorIs(t, err, coord.ErrUnavailable)
	require.ErrorContains(t, err, addr)
}

func TestConnectToSomethingElse(t *testing.T) {
	addr := listen(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1))
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
	})
	start := time.Now()
	err := fails(t, patience, []string{addr})
	require.Less(t, time.Since(start), 5*time.Second, "to try again would be in vain")
	require.ErrorIs(t, err, coord.ErrDenied)
	require.ErrorContains(t, err, "not ZooKeeper's")
}

// One wrong address among good ones does no harm.
func TestConnectPastAWrongAddress(t *testing.T) {
	addr := listen(t, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	good := servers.ZooKeeper(t, servers.Shared()).Addrs()
	for range 5 {
		c, err := Connect(t.Context(), append([]string{addr, "127.0.0.1:1"}, good...), WithRoot("/connect"))
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
}

// If the caller sets no deadline, Connect sets one, and until then the log tells what goes on.
func TestConnectDoesNotTryForEver(t *testing.T) {
	var log logged
	start := time.Now()
	_, err := Connect(context.Background(), []string{"127.0.0.1:1"}, WithTTL(400*time.Millisecond),
		WithLogger(log.logger()), func(c *config) { c.connectFor = 2 * time.Second })
	require.ErrorIs(t, err, coord.ErrUnavailable)
	require.ErrorContains(t, err, "127.0.0.1:1")
	require.ErrorContains(t, err, "refused")
	require.Less(t, time.Since(start), patience)
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), "refused")
}

func TestConnectByANameWithSeveralAddresses(t *testing.T) {
	_, port, err := net.SplitHostPort(servers.ZooKeeper(t, servers.Shared()).Addrs()[0])
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	go func() {
		for hangUp := false; ; hangUp = !hangUp {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if hangUp {
				c.Close()
			}
			defer c.Close()
		}
	}()
	for range 4 {
		c, err := Connect(t.Context(), []string{"zk.test:" + port}, WithRoot("/connect"), func(c *config) {
			c.lookup = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1", "127.0.0.2"}, nil }
		})
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
}

// Each try that is given up leaves a session at the slow server, so the next one waits for longer.
func TestASlowGreetingIsWaitedFor(t *testing.T) {
	var tries atomic.Int64
	addr := listen(t, func(c net.Conn) {
		tries.Add(1)
		if _, err := zkwire.ReadFrame(c); err == nil {
			time.Sleep(2 * time.Second)
			greetAndAnswer(c, 10*time.Second, emptily)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := Connect(ctx, []string{addr})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.LessOrEqual(t, tries.Load(), int64(4))
}

// A proxy sends such an alert while its backend is down. It may be back soon.
func TestATLSAlertOfAProxyIsNotFinal(t *testing.T) {
	addr := listen(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		_, _ = c.Write([]byte{21, 3, 3, 0, 2, 2, 80}) // internal error
	})
	err := fails(t, time.Second, []string{addr}, WithTLS(&tls.Config{}))
	require.ErrorIs(t, err, coord.ErrUnavailable)
	require.NotErrorIs(t, err, coord.ErrDenied)
	require.ErrorContains(t, err, "internal error")
}

func TestConnectInAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Connect(ctx, servers.ZooKeeper(t, servers.Shared()).Addrs())
	require.ErrorIs(t, err, context.Canceled)
}

func TestTLS(t *testing.T) {
	cluster := servers.ZooKeeper(t, servers.TLS())
	c, err := Connect(t.Context(), cluster.Addrs(), WithTLS(cluster.TLSConfig()))
	require.NoError(t, err)
	h, err := c.Acquire(t.Context(), "a", "lock", nil, exclusive)
	require.NoError(t, err)
	require.NoError(t, h.Release())
	require.NoError(t, c.Close())

	stranger := cluster.TLSConfig()
	stranger.Certificates, stranger.GetClientCertificate = nil, nil
	err = fails(t, 5*time.Second, cluster.Addrs(), WithTLS(stranger))
	t.Logf("without a certificate: %v", err)

	unknown := &tls.Config{}
	start := time.Now()
	err = fails(t, patience, cluster.Addrs(), WithTLS(unknown))
	require.ErrorIs(t, err, coord.ErrDenied)
	require.ErrorContains(t, err, "certificate")
	require.Less(t, time.Since(start), 5*time.Second)

	err = fails(t, time.Second, cluster.Addrs())
	require.ErrorIs(t, err, coord.ErrUnavailable)
}

func TestAChrootPutsEverythingBelowIt(t *testing.T) {
	s := play(t)
	addrs := s.cluster.Addrs()
	addrs[len(addrs)-1] += s.root + "/chroot"
	c, err := Connect(s.ctx, addrs, WithRoot("/app"))
	require.NoError(t, err)
	h, err := c.Acquire(s.ctx, "a/b", "lock", nil, exclusive)
	require.NoError(t, err)
	names, _, err := s.admin.Children(s.root + "/chroot/app/a/b")
	require.NoError(t, err)
	require.Len(t, names, 1)
	lines, err := c.Lines(s.ctx, "")
	require.NoError(t, err)
	require.Equal(t, []string{"a/b"}, lines)
	require.NoError(t, h.Release())
	require.NoError(t, c.Close())
}

// At the root of the service there are nodes that are not lines, such as /zookeeper.
func TestLinesAtTheRootOfTheService(t *testing.T) {
	cluster := servers.ZooKeeper(t)
	c, err := Connect(t.Context(), cluster.Addrs(), WithRoot("/"))
	require.NoError(t, err)
	defer c.Close()
	for _, name := range []string{"zookeeper", "a", "zookeeper/quota"} {
		h, err := c.Acquire(t.Context(), name, "lock", nil, exclusive)
		require.NoError(t, err, name)
		defer h.Release()
	}
	lines, err := c.Lines(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "zookeeper", "zookeeper/quota"}, lines)
	lines, err = c.Lines(t.Context(), "zoo")
	require.NoError(t, err)
	require.Equal(t, []string{"zookeeper", "zookeeper/quota"}, lines)
}

// The session that Connect opens to see whether anybody answers is the one used afterwards.
func TestConnectWastesNoSession(t *testing.T) {
	s := play(t)
	before := s.proxies[0].Accepted()
	c, err := Connect(s.ctx, []string{s.proxies[0].Addr()}, WithRoot(s.root), WithClient(coord.WithOwnerLabel("blue")))
	require.NoError(t, err)
	h, err := c.Acquire(s.ctx, "a", "lock", nil, exclusive)
	require.NoError(t, err)
	nodes, err := c.Line(s.ctx, "a")
	require.NoError(t, err)
	require.Equal(t, "blue", nodes[0].Owner.Label)
	require.NoError(t, h.Release())
	require.NoError(t, c.Close())
	require.Equal(t, 1, s.proxies[0].Accepted()-before)
}

func TestTheLoggerHearsOfSessions(t *testing.T) {
	var heard logged
	s := play(t, WithLogger(slog.New(slog.NewTextHandler(&heard, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	require.Contains(t, heard.String(), "session opened")
	require.Contains(t, heard.String(), "zk: client library: ")
	s.expire(t, s.sess)
	<-s.sess.Done()
	require.Contains(t, heard.String(), "session expired")
}

func TestAClosedDriverOpensNothing(t *testing.T) {
	s := play(t)
	require.NoError(t, s.link.Close(s.ctx))
	_, err := s.link.Open(s.ctx)
	require.ErrorContains(t, err, "closed")
	_, err = s.link.Line(s.ctx, "a")
	require.ErrorContains(t, err, "closed")
	require.NoError(t, s.link.Close(s.ctx))
}

func TestPrefixesThatNoNameHas(t *testing.T) {
	s := play(t)
	s.join(s.sess, "lock")
	for _, prefix := range []string{"/", "/a", "a//", "a/./b", "b", "a/", "\x00/x", "aa"} {
		lines, err := s.link.Lines(s.ctx, prefix)
		require.NoError(t, err, prefix)
		require.Empty(t, lines, prefix)
	}
	lines, err := s.link.Lines(s.ctx, "a")
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, lines)
}

// Somebody else makes directories with names that no call accepts. They are not lines, and are not shown.
func TestNamesThatNobodyMaySeeAreNoLines(t *testing.T) {
	s := play(t)
	c := coord.NewClient(s.sess.service)
	h, err := c.Acquire(s.ctx, "good", "lock", nil, exclusive)
	require.NoError(t, err)
	for _, name := range []string{"%0Aevil", "a\u202eb", "\u200b"} {
		s.raw(s.root+"/"+name, gozk.WorldACL(gozk.PermAll))
		_, err := s.admin.Create(s.root+"/"+name+"/_c_000102030405060708090a0b0c0d0e0f-lock-", nil, gozk.FlagEphemeralSequential,
			gozk.WorldACL(gozk.PermAll))
		require.NoError(t, err)
	}
	lines, err := c.Lines(s.ctx, "")
	require.NoError(t, err)
	require.Equal(t, []string{"good"}, lines)
	require.NoError(t, h.Release())
	require.NoError(t, c.Close())
}

func TestConnectRefusesBeforeItDials(t *testing.T) {
	drivertest.RefusesBeforeItDials(t, func(ctx context.Context, address string, o coord.Option) (*coord.Client, error) {
		return Connect(ctx, []string{address}, WithClient(o))
	})
}

func TestConnectSaysWhatIsPromised(t *testing.T) {
	err := fails(t, 0, []string{"127.0.0.1:1"}, WithClient(coord.Require(driver.Strength{Death: driver.ByKernel})))
	require.ErrorIs(t, err, coord.ErrTooWeak)
	require.EqualError(t, err, "turnwise: zk: connect: the service promises too little: "+
		"asked for: a death is noticed by the kernel; promised: a death is noticed by a TTL")
}
