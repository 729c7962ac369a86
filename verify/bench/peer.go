package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord"
)

// Service is the service that a contestant runs on.
type Service string

// The services.
const (
	ZooKeeper Service = "zookeeper"
	Etcd      Service = "etcd"
)

// clusters are the services made for coordination, on which most works are measured.
var clusters = []Service{ZooKeeper, Etcd}

// Kind is what a turn is wanted for.
type Kind string

// The kinds.
const (
	Lock   Kind = "lock"
	Read   Kind = "read"
	Write  Kind = "write"
	Permit Kind = "permit"
)

// Want is a turn that is wanted.
type Want struct {
	Kind    Kind
	Line    string
	Permits int64 // of a semaphore

	Together time.Duration // goroutines of a client share its place in line to within that time
}

// Client stands for one process of a contestant: it has its own connection and its own session.
type Client interface {
	// Acquire waits for the turn and returns how to end it.
	Acquire(ctx context.Context, w Want) (release func() error, err error)
	// Another returns a client for a second goroutine, which shares the connection.
	Another(ctx context.Context) (Client, error)
	Close()
}

// Setting is what a client is opened with.
type Setting struct {
	Addr    string
	Timeout time.Duration // of the session
	Woken   *atomic.Int64 // counts waiters that looked again, if the contestant can tell

	Observer func() *coord.Observer // as in Contestant
}

// Contestant is one of those measured side by side.
type Contestant struct {
	Name    string
	Service Service
	Kinds   []Kind

	// Open is for contestants written in Go.
	Open func(ctx context.Context, s Setting) (Client, error)
	// Program is for the others: a child that runs the scenario by itself and prints the result.
	Program func(addr string, s Scenario) (*exec.Cmd, error)

	// Place returns where the service shows those who stand in a line.
	Place func(line string) string

	Ours     bool
	Together time.Duration // as in Want
	Bare     bool          // no lock at all, only the writes that a lock needs

	Observer func() *coord.Observer // of each of our clients, in place of one that counts wake-ups; it may return nil
}

func (c *Contestant) does(kinds ...Kind) bool {
	for _, k := range kinds {
		if !slices.Contains(c.Kinds, k) {
			return false
		}
	}
	return true
}

// roster returns all contestants, in the order of the tables.
func roster() []*Contestant {
	all := slices.Concat(zooKeeperContestants(), etcdContestants(), storeContestants())
	for _, c := range all {
		if c.Ours {
			shares := *c
			shares.Name, shares.Together = c.Name+", Together", 10*time.Millisecond
			all = append(all, &shares)
		}
	}
	return all
}

// call returns the contestant's full name, as -only takes it.
func (c *Contestant) call() string { return string(c.Service) + "/" + c.Name }

func called(name string) (*Contestant, error) {
	all := roster()
	if i := slices.IndexFunc(all, func(c *Contestant) bool { return c.call() == name }); i >= 0 {
		return all[i], nil
	}
	return nil, fmt.Errorf("nobody is called %q", name)
}

// alone is a Client whose methods may be called by many goroutines.
type alone struct {
	acquire func(ctx context.Context, w Want) (func() error, error)
	close   func()
}

func (a alone) Acquire(ctx context.Context, w Want) (func() error, error) { return a.acquire(ctx, w) }
func (a alone) Another(context.Context) (Client, error)                   { return alone{a.acquire, func() {}}, nil }
func (a alone) Close()                                                    { a.close() }
