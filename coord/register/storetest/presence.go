package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnwise/turnwise/coord/register"
)

var presences = []scenario{
	{name: "one keeps it at a time", run: oneKeeps},
	{name: "of many one keeps it", run: oneOfManyKeeps},
	{name: "those who wait hear of the release", run: waitUnkept},
	{name: "the keeping outlives its context", run: keepOutlivesContext},
	{name: "keys are told apart", run: keptKeys},
	{name: "a process that is killed keeps nothing", alone: true, run: killedKeepsNothing},
}

// presences returns n stores that know who lives.
func (s *scene) presences(n int) (all []register.Presence) {
	s.Helper()
	for _, store := range s.opened(n) {
		k, ok := store.(register.Presence)
		s.needs("keep a key", !ok)
		all = append(all, k)
	}
	return all
}

// keep keeps a key, which must be possible.
func (s *scene) keep(k register.Presence, key string) (release func()) {
	s.Helper()
	ctx, cancel := s.while()
	defer cancel()
	release, err := k.Keep(ctx, key)
	if err != nil {
		s.Fatalf("Keep of %.60q: %v", key, err)
	}
	release = sync.OnceFunc(release)
	s.Cleanup(release)
	return release
}

func (s *scene) kept(k register.Presence, key string) {
	s.Helper()
	ctx, cancel := s.while()
	defer cancel()
	if release, err := k.Keep(ctx, key); !errors.Is(err, register.ErrConflict) {
		s.Errorf("Keep of a key that is kept: %v, want ErrConflict", err)
		if err == nil {
			release()
		}
	}
	brief, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
	defer cancel()
	if err := s.endsInTime("Unkept", brief, func(ctx context.Context) error { return k.Unkept(ctx, key) }); err == nil {
		s.Error("Unkept of a key that is kept says that nobody keeps it")
	}
}

func (s *scene) unkept(k register.Presence, key string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, soon)
	defer cancel()
	if err := k.Unkept(ctx, key); err != nil {
		s.Errorf("Unkept of a key that nobody keeps: %v", err)
	}
}

func oneKeeps(s *scene) {
	all := s.presences(3)
	key := s.key("k")
	for _, k := range all {
		s.unkept(k, key)
	}
	for i, k := range all {
		release := s.keep(k, key)
		for _, other := range all {
			s.kept(other, key)
		}
		release()
		for _, other := range all {
			s.unkept(other, key)
		}
		s.keep(all[(i+1)%3], key)() // at once
	}
	// A register of that name is something else, and is not made by it.
	if it := s.read(all[0], key); !it.Version.IsZero() {
		s.Errorf("keeping a key has made a register: %s", brief(it))
	}
	it := s.put(all[0], key, register.Version{}, "x")
	release := s.keep(all[0], key)
	s.remove(all[1], it)
	s.kept(all[2], key)
	s.put(all[1], key, register.Version{}, "y")
	s.kept(all[2], key)
	release()
	s.keep(all[2], key)
}

func oneOfManyKeeps(s *scene) {
	all := s.presences(3)
	for range 10 {
		var keep atomic.Int64
		var releases []func()
		var mu sync.Mutex
		var trying sync.WaitGroup
		for i := range many {
			trying.Go(func() {
				release, err := all[i%3].Keep(s.ctx, s.key("k"))
				switch {
				case err == nil:
					keep.Add(1)
					mu.Lock()
					releases = append(releases, release)
					mu.Unlock()
				case !errors.Is(err, register.ErrConflict):
					s.Errorf("Keep: %v", err)
				}
			})
		}
		trying.Wait()
		if keep.Load() != 1 {
			s.Errorf("%d of %d keep the key", keep.Load(), many)
		}
		for _, release := range releases {
			release()
		}
	}
}

func waitUnkept(s *scene) {
	all := s.presences(3)
	release := s.keep(all[0], s.key("k"))
	ctx, cancel := s.while()
	defer cancel()
	woken := make(chan error, 20)
	for i := range cap(woken) {
		go func() { woken <- all[i%3].Unkept(ctx, s.key("k")) }()
	}
	select {
	case err := <-woken:
		s.Fatalf("Unkept returns while the key is kept: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	release()
	limit := time.After(soon)
	for range cap(woken) {
		select {
		case err := <-woken:
			if err != nil {
				s.Errorf("Unkept: %v", err)
			}
		case <-limit:
			s.Fatal("Unkept does not return when nobody keeps the key")
		}
	}
}

func keepOutlivesContext(s *scene) {
	all := s.presences(2)
	ctx, cancel := context.WithCancel(s.ctx)
	release, err := all[0].Keep(ctx, s.key("k"))
	if err != nil {
		s.Fatalf("Keep: %v", err)
	}
	cancel()
	time.Sleep(100 * time.Millisecond)
	s.kept(all[1], s.key("k"))
	release()
	s.unkept(all[1], s.key("k"))
}

func keptKeys(s *scene) {
	all := s.presences(2)
	var releases []func()
	names := append([]string{strings.Repeat("l", 1000), strings.Repeat("l", 999) + "m"}, alike...)
	for _, name := range names {
		releases = append(releases, s.keep(all[0], s.key(name)))
	}
	for i, release := range releases {
		release()
		s.keep(all[1], s.key(names[i]))()
		if i+1 < len(releases) {
			if other, err := all[1].Keep(s.ctx, s.key(names[i+1])); !errors.Is(err, register.ErrConflict) {
				s.Errorf("Keep of %.60q, which is kept: %v", names[i+1], err)
				if err == nil {
					other()
				}
			}
		}
	}
}

const (
	keepVariable    = "TURNWISE_STORETEST_KEEP"    // the key that a child process keeps
	addressVariable = "TURNWISE_STORETEST_ADDRESS" // where
	idleVariable    = "TURNWISE_STORETEST_IDLE"    // a child of that child only waits
)

// Main is for the TestMain of a package whose store is a register.Presence:
//
//	func TestMain(m *testing.M) {
//		storetest.Main(func(address string) (register.Store, error) { return file.Open(…, address) })
//		os.Exit(m.Run())
//	}
//
// The suite runs the test's program once more to have a process that it can kill. In that process Main opens a store with
// the System's Address and does not return. In any other it does nothing.
func Main(open func(address string) (register.Store, error)) {
	if os.Getenv(idleVariable) != "" {
		time.Sleep(time.Minute)
		os.Exit(0)
	}
	key, ok := os.LookupEnv(keepVariable)
	if !ok {
		return
	}
	fmt.Println(keepUntilKilled(open, key)) // if it was not killed
	os.Exit(1)
}

func keepUntilKilled(open func(address string) (register.Store, error), key string) error {
	store, err := open(os.Getenv(addressVariable))
	if err != nil {
		return err
	}
	presence, ok := store.(register.Presence)
	if !ok {
		return errors.New("the store is not a register.Presence")
	}
	if _, err := presence.Keep(context.Background(), key); err != nil {
		return err
	}
	// What a process keeps does not live on in its children.
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), idleVariable+"=1")
	if err := child.Start(); err != nil {
		return err
	}
	fmt.Println("kept", child.Process.Pid)
	time.Sleep(time.Minute)
	return errors.New("nobody has killed this process within a minute")
}

func killedKeepsNothing(s *scene) {
	all := s.presences(2)
	s.needs("be opened by another process: there is no Address", s.sys.Address == "")
	for range 3 {
		kill := s.keeperProcess(s.key("k"))
		for _, k := range all {
			s.kept(k, s.key("k"))
		}
		ctx, cancel := s.while()
		defer cancel()
		woken := make(chan error, 1)
		go func() { woken <- all[0].Unkept(ctx, s.key("k")) }()
		time.Sleep(50 * time.Millisecond)
		kill()
		select {
		case err := <-woken:
			if err != nil {
				s.Errorf("Unkept: %v", err)
			}
		case <-time.After(soon):
			s.Fatal("Unkept does not return when the process that kept the key has been killed")
		}
		s.keep(all[1], s.key("k"))()
	}
}

// keeperProcess starts a process that keeps a key until it is killed with -9.
func (s *scene) keeperProcess(key string) (kill func()) {
	s.Helper()
	program, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^$")
	cmd.Env = append(os.Environ(), keepVariable+"="+key, addressVariable+"="+s.sys.Address)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s.Cleanup(kill)
	line, _ := bufio.NewReader(out).ReadString('\n')
	pid, ok := strings.CutPrefix(strings.TrimSpace(line), "kept ")
	if !ok {
		s.Fatalf("the process that was to keep a key says %q; does TestMain call storetest.Main?", line)
	}
	s.Cleanup(func() { // the child of that child
		if n, err := strconv.Atoi(pid); err == nil {
			if p, err := os.FindProcess(n); err == nil {
				_ = p.Kill()
			}
		}
	})
	return kill
}
