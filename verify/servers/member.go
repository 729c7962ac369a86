package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Member is one server of a cluster. It keeps its data and its address when it is killed and restarted.
type Member struct {
	cluster *Cluster
	id      int
	dir     string

	mu     sync.Mutex
	proc   *Process // the latest process; nil before the first
	byHand bool     // ended by Kill or Terminate, not by itself
}

// Name returns the member's name in the cluster: m1, m2, ….
func (m *Member) Name() string { return "m" + strconv.Itoa(m.id) }

// Addr returns where the server's clients connect, host:port.
func (m *Member) Addr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(m.Port(m.cluster.service.clientPort(m.cluster.cfg))))
}

// URL returns the server's address with all that a client needs, as its clients write it:
//
//	redis://:secret@127.0.0.1:15017
//	postgres://postgres:secret@127.0.0.1:15017/postgres?sslmode=disable
//	mysql://root:secret@127.0.0.1:15017/turnwise
//
// For ZooKeeper, etcd and memcached it is the address alone.
func (m *Member) URL() string { return m.cluster.service.url(m) }

// Port returns the member's port of that name, which [Config] or [Flags] asked for.
func (m *Member) Port(name string) int {
	port, err := m.cluster.port(m, name)
	if err != nil {
		panic("servers: " + err.Error())
	}
	return port
}

// Dir returns the member's folder, with its data, its configuration and its log.
func (m *Member) Dir() string { return m.dir }

// LogFile returns the file that the server's output goes to.
func (m *Member) LogFile() string { return filepath.Join(m.dir, "log") }

// Pid returns the process id of the server as last launched.
func (m *Member) Pid() int { return m.process().Pid() }

func (m *Member) process() *Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proc
}

// Launch starts the server on its data if it is not running, and does not wait until it serves: a member without a
// majority never does. [Member.Start] waits, and [Cluster.Ready] waits for all.
func (m *Member) Launch() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc != nil && m.proc.Alive() {
		return nil
	}
	cmd, err := m.cluster.service.command(m)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(m.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	cmd.Dir, cmd.Stdout, cmd.Stderr = m.dir, log, log
	if cmd.Env == nil {
		cmd.Env = environment()
	}
	if m.cluster.cfg.clocks {
		own, err := m.ownClock()
		if err != nil {
			return err
		}
		cmd.Env = append(cmd.Env, own...)
	}
	m.proc, err = StartProcess(cmd)
	m.byHand = false
	return err
}

// Start launches the server and waits until it serves.
func (m *Member) Start(ctx context.Context) error {
	if err := m.Launch(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return m.ready(ctx)
}

// Kill ends the server as kill -9 does, and returns when it is gone.
func (m *Member) Kill() { m.end((*Process).Kill) }

// Terminate ends the server in good order, as an operator would, and returns when it is gone.
func (m *Member) Terminate() { m.end(func(p *Process) { p.end(m.cluster.service.goodOrder()) }) }

func (m *Member) end(how func(*Process)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc != nil {
		m.byHand = true
		how(m.proc)
	}
}

// Freeze stops the server where it is (SIGSTOP): its connections stay open and nobody answers on them.
func (m *Member) Freeze() { m.process().Freeze() }

// Thaw lets a frozen server go on (SIGCONT).
func (m *Member) Thaw() { m.process().Thaw() }

// expected reports whether the server should serve: it was launched, and nobody has ended or frozen it.
func (m *Member) expected() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proc != nil && !m.byHand && !m.proc.Frozen()
}

// ready waits until the server serves, and makes sure that it is this one.
func (m *Member) ready(ctx context.Context) error {
	p := m.process()
	// Patience is short at first: ZooKeeper never answers a connection made after it began to listen and before it serves.
	for patience := 100 * time.Millisecond; ; {
		h, err := m.probe(ctx, patience)
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
			patience = min(2*patience, 2*time.Second)
		}
		switch {
		case !p.Alive() && m.portTaken():
			return fmt.Errorf("%w: %s", errPortTaken, m.logTail())
		case !p.Alive():
			return fmt.Errorf("%s ended by itself: %v\n%s", m.Name(), p.cmd.ProcessState, m.cluster.logTails())
		case err == nil && h.serving && !p.listens(m.Port(m.cluster.service.clientPort(m.cluster.cfg))):
			return fmt.Errorf("%w: %s is answered by a process that is not ours", errPortTaken, m.Addr())
		case err == nil && h.serving:
			m.cluster.version = h.version
			return nil
		}
		if ctxErr := pause(ctx); ctxErr != nil {
			return fmt.Errorf("%s does not serve: %w; its last answer: %v\n%s", m.Name(), ctxErr, err, m.cluster.logTails())
		}
	}
}

func (m *Member) probe(ctx context.Context, patience time.Duration) (health, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return m.cluster.service.probe(ctx, m)
}

// dial connects to the server as a client does. Reads and writes fail at ctx's deadline.
func (m *Member) dial(ctx context.Context) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", m.Addr())
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		err = conn.SetDeadline(deadline)
	}
	return conn, err
}

// writeConfig writes the server's configuration into its folder, with what stands in braces filled in.
func (m *Member) writeConfig(name string, lines []string) (file string, err error) {
	lines, err = m.cluster.expand(m, lines)
	if err != nil {
		return "", err
	}
	file = filepath.Join(m.dir, name)
	return file, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

func (m *Member) portTaken() bool {
	return strings.Contains(strings.ToLower(m.logTail()), "address already in use")
}

// logTail returns the end of the server's output, enough to tell why it would not start. It leaves out where in Java's
// code a connection was reset, which tells us nothing.
func (m *Member) logTail() string {
	text, err := os.ReadFile(m.LogFile())
	if err != nil {
		return err.Error()
	}
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(text)), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "\tat ") || strings.HasPrefix(line, "\t... ")
	})
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
