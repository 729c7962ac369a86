package fences

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
	"github.com/turnwise/turnwise/fence/httpfence"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/integration/service"
	"github.com/turnwise/turnwise/verify/servers"
)

const ttl = 2 * time.Second // the least that etcd grants

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "hold" {
		if err := holdAndWrite(os.Args[2], os.Args[3:]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(servers.Main(m))
}

// stale is how many writes a holder that has lost the lock tries on each target.
const stale = 10_000

// holdAndWrite takes the lock, writes to all targets, and goes on writing when it is told to, whatever has become of the
// lock.
func holdAndWrite(etcd string, at []string) error {
	ctx := context.Background()
	locks, err := service.Etcd.Connect(ctx, []string{etcd}, ttl)
	if err != nil {
		return err
	}
	targets := make(map[string]*target)
	for i := 0; i < len(at); i += 2 {
		if targets[at[i]], err = kinds[at[i]](at[i+1]); err != nil {
			return err
		}
	}
	hold, err := mutex.New(locks, line).Lock(ctx)
	if err != nil {
		return err
	}
	mine := fence.Stamp{Token: hold.Token()}
	for kind, to := range targets {
		if err := to.write(ctx, mine, "the first holder's"); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	fmt.Println("holds")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	for kind, to := range targets {
		taken, refused := 0, 0
		for range stale {
			switch err := to.write(ctx, mine, "the stale holder's"); {
			case err == nil:
				taken++
			case errors.Is(err, coord.ErrStale):
				refused++
			default:
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
		fmt.Printf("%s: %d taken, %d refused\n", kind, taken, refused)
	}
	fmt.Println("done")
	return nil
}

// ledger is a server that keeps a value.
func ledger(t *testing.T) (url string) {
	var mu sync.Mutex
	value := ""
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(w, value)
	})
	mux.Handle("PUT /", httpfence.Require(new(fence.Local), httpfence.Line(line), http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) {
			text, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			value = string(text)
		})))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// A process is stopped while it holds, and the lock goes to another one, since the session of the first has ended. Then the
// first goes on as if nothing had happened.
func TestAStoppedHolderWritesNothing(t *testing.T) {
	etcd := servers.Etcd(t, servers.Shared()).Addrs()[0]
	dir := servers.ScratchFor(t)
	redis := servers.Redis(t, servers.Members(2))
	at := map[string]string{
		"postgres":      servers.Postgres(t).URL(),
		"mariadb":       servers.MariaDB(t).URL(),
		"sqlite":        dir + "/ledger.db",
		"go-redis":      redis.Member(0).URL(),
		"rueidis":       redis.Member(1).URL(),
		"http":          ledger(t),
		"a shared file": dir + "/ledger",
		"no fence":      dir + "/unfenced",
	}
	args, targets := []string{"hold", etcd}, make(map[string]*target)
	for kind, address := range at {
		args = append(args, kind, address)
		targets[kind] = open(t, kind, address)
	}

	cmd := exec.Command(os.Args[0], args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	first, err := servers.StartProcess(cmd)
	require.NoError(t, err)
	defer first.Kill()
	lines := bufio.NewScanner(out)
	says := func() string { lines.Scan(); return lines.Text() }
	require.Equal(t, "holds", says())
	first.Freeze()

	locks := service.Etcd.Client(t, []string{etcd}, ttl)
	hold, err := mutex.New(locks, line, mutex.MaxWait(time.Minute)).Lock(t.Context())
	require.NoError(t, err)
	defer hold.Release()
	for kind, to := range targets {
		require.NoError(t, to.write(t.Context(), fence.Stamp{Token: hold.Token()}, "the second holder's"), kind)
	}
	first.Thaw()
	_, err = io.WriteString(in, "go on\n")
	require.NoError(t, err)
	said := []string{}
	for len(said) == 0 || said[len(said)-1] != "done" && lines.Err() == nil && len(said) <= len(at) {
		said = append(said, says())
	}
	t.Log(strings.Join(said, "\n"))
	for kind, to := range targets {
		t.Run(kind, func(t *testing.T) {
			want, value := fmt.Sprintf("%s: 0 taken, %d refused", kind, stale), "the second holder's"
			if kind == "no fence" {
				want, value = fmt.Sprintf("%s: %d taken, 0 refused", kind, stale), "the stale holder's"
			}
			assert.True(t, slices.Contains(said, want), "it says %q", said)
			got, err := to.read(t.Context())
			assert.NoError(t, err)
			assert.Equal(t, value, got)
		})
	}
}
