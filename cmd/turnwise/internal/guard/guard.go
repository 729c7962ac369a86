//go:build linux || darwin

// Package guard is the guardian: a second process of this program, between turnwise and the command. It makes sure that the
// command ends in time even when turnwise cannot, because turnwise was killed or stopped.
//
// turnwise tells the guardian over a socket until when the command may go on. When the socket ends, or that time comes, the
// guardian kills the command and everything that it has started. If the guardian ends, turnwise does so instead.
//
// Where the kernel keeps the line for whoever has a file open, nobody needs to be killed when the socket ends: the guardian has the
// file as well, until everything that the command has started has gone.
package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/people"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/run"
)

// Name is the argument that makes the program the guardian.
const Name = "guardian"

// order is what turnwise tells the guardian; one of its fields is set.
type order struct {
	Start  *run.Command   `json:",omitempty"` // with Limit
	Files  []int          `json:",omitempty"` // with Start: the ones that the command inherits
	Limit  *run.Limit     `json:",omitempty"`
	Signal int            `json:",omitempty"` // for the process group
	Tell   int            `json:",omitempty"` // a signal for the command alone
	End    *time.Duration `json:",omitempty"`
}

// report is what the guardian tells turnwise.
type report struct {
	Event  run.Event
	Failed string `json:",omitempty"` // why the command could not be started
	Errno  int    `json:",omitempty"`
}

// Remote is a command in the guardian's care.
type Remote struct {
	guardian *os.Process
	conn     net.Conn
	cgroup   string
	forget   func() // lets the guardian's orphans be killed
	events   chan run.Event

	mu   sync.Mutex
	last *time.Timer // fires when the guardian is no longer relied on

	late atomic.Bool // last has fired

	gone chan struct{} // closed when nobody is left
}

// Start starts the guardian, which starts the command. name is shown beside it in a list of processes. limits returns until
// when the command may go on, and whether that has changed. The first one goes along with the order to start, since this
// process or the guardian may be stopped before either says anything more.
func Start(c run.Command, name string, limits func() (l run.Limit, changed bool)) (*Remote, error) {
	run.Adopt()
	ours, theirs, err := pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	program, err := run.Self()
	if err != nil {
		ours.Close()
		return nil, err
	}
	numbers, passed, err := run.Pass(append([]*os.File{theirs}, c.Files...))
	if err != nil {
		ours.Close()
		return nil, err
	}
	p, forget, err := run.Keep(func() (*os.Process, error) {
		return os.StartProcess(program, []string{os.Args[0], Name, name, strconv.Itoa(numbers[0])}, &os.ProcAttr{
			Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
			Sys:   &syscall.SysProcAttr{Setpgid: true},
		})
	})
	passed()
	theirs.Close() // so that the socket ends when the guardian does
	if err != nil {
		ours.Close()
		return nil, fmt.Errorf("start the guardian: %v", err) // it says nothing of the command
	}
	r := &Remote{guardian: p, conn: ours, cgroup: c.Cgroup, forget: forget, events: make(chan run.Event, 64), gone: make(chan struct{})}
	r.last = time.AfterFunc(time.Hour, func() {
		r.late.Store(true)
		run.KillBelow(p.Pid, c.Cgroup) // while two can: the guardian may only be slow, and this process may be killed at any time
		r.dismiss()
	})
	limit, _ := limits()
	r.rely(limit)
	r.tell(order{Start: &c, Files: numbers[1:], Limit: &limit})
	reports := json.NewDecoder(ours)
	first, err := r.first(reports, limits)
	if err != nil { // listen ends what it may have started
		if !r.late.Load() {
			fmt.Fprintln(people.Err, "turnwise: the guardian has ended before it could say whether the command runs")
		}
		go r.listen(reports)
		return r, nil
	}
	if first.Failed != "" {
		r.stopTimer()
		ours.Close()
		_, _ = p.Wait()
		forget()
		return nil, &unstarted{first.Failed, syscall.Errno(first.Errno)}
	}
	r.events <- first.Event
	go r.listen(reports)
	go r.wake()
	return r, nil
}

// wake lets a guardian go on that somebody has stopped: it would guard nothing, hear of nothing, and leave all that has ended as
// zombies. One that runs does not notice.
func (r *Remote) wake() {
	for tick := time.Tick(time.Second); ; {
		select {
		case <-tick:
			_ = r.guardian.Signal(syscall.SIGCONT)
		case <-r.gone:
			return
		}
	}
}

// first waits for the first report. Until then it tells the guardian of each new limit.
func (r *Remote) first(reports *json.Decoder, limits func() (run.Limit, bool)) (first report, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = reports.Decode(&first)
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return first, err
		case <-tick.C:
			if l, changed := limits(); changed {
				r.Limit(l)
			}
		}
	}
}

// unstarted is the guardian's reason why the command could not be started.
type unstarted struct {
	text string
	error
}

func (u *unstarted) Error() string { return u.text }
func (u *unstarted) Unwrap() error { return u.error }

// pair returns the two ends of a socket.
func pair() (ours net.Conn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	f := os.NewFile(uintptr(fds[0]), "guardian")
	defer f.Close()
	theirs = os.NewFile(uintptr(fds[1]), "turnwise")
	if ours, err = net.FileConn(f); err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

func (r *Remote) Events() <-chan run.Event { return r.events }

// Pid returns the guardian's process number.
func (r *Remote) Pid() int { return r.guardian.Pid }

// listen passes on what the guardian reports. If the guardian ends too early, listen does its work.
func (r *Remote) listen(reports *json.Decoder) {
	defer close(r.events)
	defer close(r.gone)
	defer r.conn.Close()
	exited := false
	for {
		var rep report
		if reports.Decode(&rep) != nil {
			break
		}
		exited = exited || rep.Event.What == run.Exited
		if rep.Event.What == run.Gone {
			r.stopTimer()
			r.conn.Close()
			_, _ = r.guardian.Wait()
			r.forget()
			r.events <- rep.Event
			return
		}
		r.events <- rep.Event
	}
	r.stopTimer()
	r.dismiss()
	if r.late.Load() {
		r.events <- run.Event{What: run.Endangered}
	}
	r.forget()
	run.KillAll(r.cgroup)
	if !exited {
		r.events <- run.Event{What: run.Exited, Code: 128 + int(syscall.SIGKILL), Status: int(syscall.SIGKILL)}
	}
	r.events <- run.Event{What: run.Gone, At: run.Now()}
}

// dismiss kills the guardian; its descendants then become ours.
func (r *Remote) dismiss() { _ = r.guardian.Kill() }

func (r *Remote) stopTimer() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last.Stop()
}

func (r *Remote) Limit(l run.Limit) {
	r.rely(l)
	r.tell(order{Limit: &l})
}

// rely has the guardian dismissed when it is no longer relied on.
func (r *Remote) rely(l run.Limit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.Last == 0 {
		r.last.Stop()
	} else {
		r.last.Reset(max(l.Last.Until(), 0))
	}
}

func (r *Remote) Signal(s os.Signal)      { r.tell(order{Signal: int(s.(syscall.Signal))}) }
func (r *Remote) Tell(s os.Signal)        { r.tell(order{Tell: int(s.(syscall.Signal))}) }
func (r *Remote) End(grace time.Duration) { r.tell(order{End: &grace}) }

// startsWithin is how long a guardian may take to begin. A limit of the command's ends the wait before that.
const startsWithin = 30 * time.Second

// tell sends an order, without waiting for a guardian that is stopped.
func (r *Remote) tell(o order) {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	patience := time.Second
	if o.Start != nil { // it may be longer than the socket has room for, and on a busy machine a guardian begins late
		patience = startsWithin
	}
	_ = r.conn.SetWriteDeadline(time.Now().Add(patience))
	if _, err := r.conn.Write(append(text, '\n')); errors.Is(err, os.ErrDeadlineExceeded) {
		r.dismiss() // it does not listen, so it does not guard; and after half an order it would understand nothing
	}
}

// Main is the guardian. It returns the program's exit code.
func Main() int {
	run.Rename()
	run.KeepThread() // the command dies with the thread that has started it
	outlive()
	conn, err := socket()
	if err != nil {
		fmt.Fprintln(os.Stderr, "turnwise: the guardian is started by turnwise alone")
		return 64
	}
	orders, reports := receive(conn), json.NewEncoder(conn)
	first := <-orders
	if first.Start == nil || first.Limit == nil {
		return 0 // turnwise has gone
	}
	if first.Start.Alone { // they are only for the guardian, for as long as it lives
		for _, n := range first.Files {
			unix.CloseOnExec(n)
		}
	}
	limit := latest(orders, *first.Limit)
	for limit.Over() { // before it starts the command it hears whether the hold goes on
		o, more := <-orders
		if !more {
			return 0
		}
		if o.Limit != nil {
			limit = *o.Limit
		}
	}
	first.Start.Mortal = !first.Start.Outlives
	tree, err := run.Start(*first.Start)
	if err != nil {
		var errno syscall.Errno
		errors.As(err, &errno)
		_ = reports.Encode(report{Failed: err.Error(), Errno: int(errno)})
		return 0
	}
	tree.Limit(latest(orders, limit))
	go obey(orders, tree, first.Start.Outlives)
	for e := range tree.Events() {
		_ = reports.Encode(report{Event: e})
	}
	run.RemoveCgroup(first.Start.Cgroup)
	return 0
}

// socket returns the socket to turnwise.
func socket() (net.Conn, error) {
	if len(os.Args) < 4 {
		return nil, os.ErrInvalid
	}
	number, err := strconv.Atoi(os.Args[3])
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(number), "turnwise")
	if f == nil {
		return nil, os.ErrInvalid
	}
	defer f.Close()
	return net.FileConn(f)
}

// receive returns the orders as they come. The channel is closed when turnwise is gone.
func receive(conn net.Conn) <-chan order {
	orders := make(chan order, 64)
	go func() {
		defer close(orders)
		for decoder := json.NewDecoder(conn); ; {
			var o order
			if decoder.Decode(&o) != nil {
				return
			}
			orders <- o
		}
	}()
	return orders
}

// latest returns the last limit that has come by now. Nothing else comes before the first report.
func latest(orders <-chan order, limit run.Limit) run.Limit {
	for {
		select {
		case o, more := <-orders:
			if !more {
				return limit // obey ends the command
			}
			if o.Limit != nil {
				limit = *o.Limit
			}
		default:
			return limit
		}
	}
}

func obey(orders <-chan order, tree *run.Tree, outlives bool) {
	for o := range orders {
		switch {
		case o.Limit != nil:
			tree.Limit(*o.Limit)
		case o.Signal != 0:
			tree.Signal(syscall.Signal(o.Signal))
		case o.Tell != 0:
			tree.Tell(syscall.Signal(o.Tell))
		case o.End != nil:
			tree.End(*o.End)
		}
	}
	if !outlives {
		tree.End(0)
	}
}

// outlive keeps the guardian from ending by a signal that is meant for turnwise. Such signals are caught, not ignored: the
// command would inherit that and ignore them as well.
func outlive() {
	caught := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGTSTP,
		syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE} {
		if !signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
}

var _ run.Child = (*Remote)(nil)
var _ run.Child = (*run.Tree)(nil)
