//go:build linux || darwin

// Sharedfile has several processes write to one journal. One of them is stopped while it writes, and loses its lock. When it
// goes on, nobody ever reads what it writes.
//
//	go run ./examples/sharedfile [URL of a service]
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
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/sharedfile"
)

func main() {
	log.SetFlags(0)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if len(os.Args) == 5 && os.Args[1] == "write" { // one of the processes that this program starts
		if err := writer(ctx, os.Args[2], os.Args[3], os.Args[4]); err != nil {
			log.Fatal(err)
		}
		return
	}
	url := "file://" // a directory of the user's
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	if err := run(ctx, url); err != nil {
		log.Fatal(err)
	}
}

func open(client *coord.Client, dir string) (*sharedfile.File, error) {
	return sharedfile.Open(mutex.New(client, "examples/journal"), filepath.Join(dir, "journal"))
}

// add writes a version with one more line. It calls half when all lines but the new one are written: one writer is stopped there.
func add(ctx context.Context, journal *sharedfile.File, name string, half func()) error {
	return journal.Write(ctx, func(w io.Writer) error {
		before, err := lines(ctx, journal)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, strings.Join(before, "")); err != nil {
			return err
		}
		half()
		_, err = fmt.Fprintf(w, "%d %s\n", len(before)+1, name)
		return err
	})
}

func lines(ctx context.Context, journal *sharedfile.File) (all []string, err error) {
	err = journal.Read(ctx, func(r io.Reader) error {
		text, err := io.ReadAll(r)
		if len(text) > 0 {
			all = strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
			all[len(all)-1] += "\n"
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) { // nobody has written yet
		return nil, nil
	}
	return all, err
}

func writer(ctx context.Context, name, url, dir string) error {
	client, err := backend.Open(ctx, url)
	if err != nil {
		return err
	}
	defer client.Close()
	journal, err := open(client, dir)
	if err != nil {
		return err
	}
	if name == "dan" {
		err := add(ctx, journal, name, func() {
			fmt.Println("half")
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // he is stopped here, with the lock
		})
		switch {
		case errors.Is(err, coord.ErrStale):
			fmt.Println("refused: somebody with a greater token has begun to write")
		case errors.Is(err, coord.ErrLost):
			fmt.Println("given up: the lock is lost")
		default:
			fmt.Println("written:", err)
		}
		return nil
	}
	for range 3 {
		if err := add(ctx, journal, name, func() {}); err != nil {
			return err
		}
	}
	return nil
}

func process(name, url, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "write", name, url, dir)
	cmd.Stderr = os.Stderr
	return cmd
}

func run(ctx context.Context, url string) error {
	dir, err := os.MkdirTemp("", "turnwise-sharedfile")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	client, err := backend.Open(ctx, url)
	if err != nil {
		return err
	}
	defer client.Close()
	journal, err := open(client, dir)
	if err != nil {
		return err
	}

	if err := together(ctx, url, dir, journal); err != nil {
		return err
	}
	return stopped(ctx, client, url, dir, journal)
}

// together lets three write at the same time.
func together(ctx context.Context, url, dir string, journal *sharedfile.File) error {
	var writers sync.WaitGroup
	for _, name := range []string{"ann", "bob", "cyd"} {
		writers.Go(func() {
			if err := process(name, url, dir).Run(); err != nil {
				log.Printf("%s: %v", name, err)
			}
		})
	}
	writers.Wait()
	return show(ctx, journal, "ann, bob and cyd have written three lines each")
}

// stopped stops a writer in the middle, past the end of its hold.
func stopped(ctx context.Context, client *coord.Client, url, dir string, journal *sharedfile.File) error {
	dan := process("dan", url, dir)
	out, err := dan.StdoutPipe()
	if err != nil {
		return err
	}
	in, err := dan.StdinPipe()
	if err != nil {
		return err
	}
	if err := dan.Start(); err != nil {
		return err
	}
	defer dan.Wait()
	defer dan.Process.Kill()
	says := bufio.NewScanner(out)
	if !says.Scan() {
		return errors.New("dan has not begun to write")
	}
	if err := dan.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := show(ctx, journal, "dan has the lock and has written half of his version, and is stopped (SIGSTOP)"); err != nil {
		return err
	}

	// An operator takes dan's place away. On a service, his session would end by itself.
	line, err := client.Line(ctx, "examples/journal")
	if err != nil {
		return err
	}
	for _, node := range line {
		if err := client.Break(ctx, node); err != nil {
			return err
		}
	}
	if err := add(ctx, journal, "eve", func() {}); err != nil {
		return err
	}
	if err := show(ctx, journal, "dan has lost the lock; eve has it now, and writes"); err != nil {
		return err
	}

	if err := dan.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	if _, err := io.WriteString(in, "go on\n"); err != nil {
		return err
	}
	if !says.Scan() {
		return errors.New("dan has not said what came of it")
	}
	return show(ctx, journal, "dan goes on: "+says.Text())
}

func show(ctx context.Context, journal *sharedfile.File, what string) error {
	all, err := lines(ctx, journal)
	if err != nil {
		return err
	}
	last := "none"
	if len(all) > 0 {
		last = strings.TrimSpace(all[len(all)-1])
	}
	fmt.Printf("%s\n  a reader gets %d lines; the last is %q\n", what, len(all), last)
	return nil
}
