//go:build linux || darwin

// Tour shows in a few seconds what turnwise is for. The processes are real ones, and so is what is done to them.
//
//	go run ./examples/tour
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/file"
	"github.com/turnwise/turnwise/recipes/election"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/sharedfile"
)

func main() {
	log.SetFlags(0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if len(os.Args) == 4 { // one of the processes that the tour starts
		roles := map[string]func(context.Context, *coord.Client, string) error{"stand": stand, "write": write, "pause": pause}
		role, name, dir := os.Args[1], os.Args[2], os.Args[3]
		if err := roles[role](ctx, connect(ctx, name, dir), dir); err != nil {
			log.Fatalf("%s: %v", name, err)
		}
		return
	}
	dir, err := os.MkdirTemp("", "turnwise-tour-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t := &tour{ctx: ctx, dir: dir, client: connect(ctx, "you", dir)}
	defer t.client.Close()
	defer t.endAll()
	t.leaders()
	t.versions()
	t.stopped()
}

// connect opens the service, which is a directory. The name is what others see.
func connect(ctx context.Context, name, dir string) *coord.Client {
	client, err := file.Connect(ctx, filepath.Join(dir, "locks"), file.WithClient(coord.WithOwnerLabel(name)))
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// stand wants to lead, and then leads for as long as it lives.
func stand(ctx context.Context, client *coord.Client, _ string) error {
	term, err := election.New(client, "leader").Campaign(ctx, nil)
	if err != nil {
		return err
	}
	fmt.Println(term.Token())
	<-term.Context().Done()
	return nil
}

func shared(client *coord.Client, dir string) *sharedfile.File {
	f, err := sharedfile.Open(mutex.New(client, "report"), filepath.Join(dir, "report"))
	if err != nil {
		log.Fatal(err)
	}
	return f
}

// read returns the number of the version, and whether all of it is of one version.
func read(ctx context.Context, f *sharedfile.File) (version int, whole bool, err error) {
	err = f.Read(ctx, func(r io.Reader) error {
		text, err := io.ReadAll(r)
		first, _, _ := strings.Cut(string(text), "\n")
		version, _ = strconv.Atoi(first)
		whole = string(text) == body(version)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) { // nobody has written yet
		return 0, true, nil
	}
	return version, whole, err
}

// body is a version: a thousand lines that all say which one it is.
func body(version int) string { return strings.Repeat(fmt.Sprintln(version), 1000) }

// next writes the version after the one that stands there. In the middle of it half is called.
func next(ctx context.Context, f *sharedfile.File, half func()) error {
	return f.Write(ctx, func(w io.Writer) error {
		version, _, err := read(ctx, f)
		if err != nil {
			return err
		}
		text := body(version + 1)
		_, err = io.WriteString(w, text[:len(text)/2])
		half()
		if err == nil {
			_, err = io.WriteString(w, text[len(text)/2:])
		}
		return err
	})
}

func write(ctx context.Context, client *coord.Client, dir string) error {
	f := shared(client, dir)
	for range 20 {
		if err := next(ctx, f, func() {}); err != nil {
			return err
		}
	}
	fmt.Println("done")
	return nil
}

// pause is a writer that says when it is in the middle of a version, and goes on when it is told to.
func pause(ctx context.Context, client *coord.Client, dir string) error {
	err := next(ctx, shared(client, dir), func() {
		fmt.Println("half")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	})
	switch {
	case errors.Is(err, coord.ErrStale), errors.Is(err, coord.ErrLost):
		fmt.Println("refused:", err)
	default:
		fmt.Println("written:", err)
	}
	return nil
}

// tour is the process that starts the others.
type tour struct {
	ctx    context.Context
	dir    string
	client *coord.Client
	all    []*process
}

type process struct {
	*exec.Cmd
	name  string
	in    io.WriteCloser
	lines *bufio.Scanner
}

func (t *tour) start(role, name string) *process {
	p := &process{Cmd: exec.CommandContext(t.ctx, os.Args[0], role, name, t.dir), name: name}
	p.Stderr = os.Stderr
	in, err := p.StdinPipe()
	t.must(err)
	out, err := p.StdoutPipe()
	t.must(err)
	p.in, p.lines = in, bufio.NewScanner(out)
	t.must(p.Start())
	t.all = append(t.all, p)
	return p
}

// says waits for the next line that a process prints.
func (p *process) says() string {
	if !p.lines.Scan() {
		log.Fatalf("%s has ended without a word", p.name)
	}
	return p.lines.Text()
}

func (t *tour) endAll() {
	for _, p := range t.all {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
}

func (t *tour) must(err error) {
	if err != nil {
		t.endAll()
		log.Fatal(err)
	}
}

// inLine waits until so many stand in a line, and returns them.
func (t *tour) inLine(name string, n int) []coord.Node {
	for {
		nodes, err := t.client.Line(t.ctx, name)
		t.must(err)
		if len(nodes) == n {
			return nodes
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (t *tour) leaders() {
	fmt.Println("Three processes want to lead.")
	anna := t.start("stand", "anna")
	token := anna.says()
	t.inLine("leader", 1)
	bert := t.start("stand", "bert")
	t.inLine("leader", 2)
	t.start("stand", "carl")
	t.inLine("leader", 3)
	fmt.Printf("  anna leads, with token %s. bert and carl wait.\n", token)
	killed := time.Now()
	t.must(anna.Process.Kill())
	token = bert.says()
	fmt.Printf("  anna is killed with -9. bert leads %v later, with token %s.\n", time.Since(killed).Round(100*time.Microsecond), token)
}

func (t *tour) versions() {
	fmt.Println("Two processes write a file, version after version, and two readers read it.")
	var reads, torn, stop atomic.Int64
	readers := make(chan error, 2)
	f := shared(t.client, t.dir)
	for range cap(readers) {
		go func() {
			for stop.Load() == 0 {
				_, whole, err := read(t.ctx, f)
				if err != nil {
					readers <- err
					return
				}
				reads.Add(1)
				if !whole {
					torn.Add(1)
				}
			}
			readers <- nil
		}()
	}
	dora, emma := t.start("write", "dora"), t.start("write", "emma")
	dora.says()
	emma.says()
	stop.Store(1)
	for range cap(readers) {
		t.must(<-readers)
	}
	version, _, err := read(t.ctx, f)
	t.must(err)
	fmt.Printf("  They have written %d versions. Of %d reads, %d saw something that is not one whole version.\n", version, reads.Load(), torn.Load())
}

func (t *tour) stopped() {
	fmt.Println("A writer is stopped in the middle of a version, as by a long pause of its machine.")
	finn := t.start("pause", "finn")
	finn.says()
	t.must(finn.Process.Signal(syscall.SIGSTOP))
	gina := t.start("write", "gina")
	line := t.inLine("report", 2)
	has, waits := line[0], line[1]
	fmt.Println("You ask who waits for whom.")
	fmt.Printf("  %s, process %d, has it, with token %d.\n", has.Owner.Label, has.Owner.PID, has.Token)
	fmt.Printf("  %s, process %d, waits for %s.\n", waits.Owner.Label, waits.Owner.PID, has.Owner.Label)
	t.must(t.client.Break(t.ctx, has))
	gina.says()
	f := shared(t.client, t.dir)
	version, _, err := read(t.ctx, f)
	t.must(err)
	fmt.Printf("  You take finn's place away. gina writes on, to version %d.\n", version)
	t.must(finn.Process.Signal(syscall.SIGCONT))
	_, err = io.WriteString(finn.in, "\n")
	t.must(err)
	fmt.Printf("  finn goes on: %s\n", finn.says())
	now, whole, err := read(t.ctx, f)
	t.must(err)
	if now != version || !whole {
		log.Fatalf("version %d was damaged", version)
	}
	fmt.Printf("  Everybody reads version %d, whole.\n", now)
}
