package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
)

// Each of them is a mistake that no retry mends, and nobody is asked.
func TestWhatIsWrongWithTheOptions(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const at = "https://127.0.0.1:1"
	for name, c := range map[string]struct {
		namespace string
		opts      []Option
		says      string
	}{
		"no pod":                 {"default", nil, "no pod"},
		"no namespace":           {"", []Option{WithServer(at)}, "no namespace"},
		"a bad namespace":        {"a/b", []Option{WithServer(at)}, "namespace"},
		"a capital":              {"Default", []Option{WithServer(at)}, "lower-case"},
		"no URL":                 {"default", []Option{WithServer("127.0.0.1:1")}, "the server"},
		"no host":                {"default", []Option{WithServer("https://")}, "https://host:port"},
		"a port that is none":    {"default", []Option{WithServer("https://127.0.0.1:99999")}, "the server"},
		"a password in the URL":  {"default", []Option{WithServer("https://u:secret@127.0.0.1:1")}, "https://host:port"},
		"a token in the URL":     {"default", []Option{WithServer("https://secret@127.0.0.1:1")}, "https://host:port"},
		"a password cut short":   {"default", []Option{WithServer("https://u:secret/a@127.0.0.1:1")}, "https://host:port"},
		"one that is misspelt":   {"default", []Option{WithServer("https://u:secret%zz@127.0.0.1:1")}, "https://host:port"},
		"a bad root":             {"default", []Option{WithServer(at), WithRoot("a_b")}, "WithRoot"},
		"no token":               {"default", []Option{WithServer(at), WithTokenFile(dir + "/none")}, "the token"},
		"an empty token":         {"default", []Option{WithServer(at), WithTokenFile(file("empty", "\n"))}, "one word"},
		"a token in clear":       {"default", []Option{WithServer("http://192.0.2.1:8001"), WithTokenFile(file("t", "secret"))}, "in clear"},
		"no authority":           {"default", []Option{WithServer(at), WithCAFile(file("ca", "nonsense"))}, "no certificate"},
		"no key":                 {"default", []Option{WithServer(at), WithClientCertificate(file("cert", "x"), file("key", "y"))}, "certificate"},
		"no kubeconfig":          {"default", []Option{WithKubeconfig(dir+"/none", "")}, "the kubeconfig"},
		"a kubeconfig in YAML":   {"default", []Option{WithKubeconfig(file("yaml", "apiVersion: v1\n"), "")}, "kubectl config view"},
		"a context that is none": {"default", []Option{WithKubeconfig(file("k", "{}"), "prod")}, `no context "prod"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(within(t, 20*time.Second), c.namespace, append(c.opts, WithLogger(logger(t)))...)
			storecheck.Refused(t, err, coord.ErrInvalid, c.says)
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("it is shown: %v", err)
			}
		})
	}
}

// saying is a server that answers everything alike.
func saying(t *testing.T, code int, contentType, text string) Option {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
		w.WriteHeader(code)
		w.Write([]byte(text))
	}))
	t.Cleanup(s.Close)
	return WithServer(s.URL)
}

func refusing(code int, reason, message, kind string) string {
	b, _ := json.Marshal(map[string]any{"kind": "Status", "code": code, "reason": reason, "message": message, "details": map[string]string{"kind": kind}})
	return string(b)
}

func TestWhatTheServerRefuses(t *testing.T) {
	const jsons = "application/json"
	for name, c := range map[string]struct {
		code       int
		kind, text string
		class      error
		says       string
	}{
		"a web page":         {200, "text/html", "<html>", driver.ErrDenied, "no Kubernetes API server"},
		"no such page":       {404, "text/plain", "404 page not found", driver.ErrDenied, "no Kubernetes API server"},
		"a redirect":         {302, "text/html", "", driver.ErrDenied, "no Kubernetes API server"},
		"a stranger":         {401, jsons, refusing(401, "Unauthorized", "Unauthorized", ""), driver.ErrDenied, "does not know who we are"},
		"a right is lacking": {403, jsons, refusing(403, "Forbidden", `User "x" cannot get resource "leases"`, "leases"), driver.ErrDenied, "Role with get, list, watch, create, update and delete"},
		"no namespace":       {404, jsons, refusing(404, "NotFound", `namespaces "x" not found`, "namespaces"), driver.ErrMissing, "kubectl create namespace"},
		"no leases":          {404, jsons, refusing(404, "NotFound", "the server could not find the requested resource", ""), driver.ErrDenied, "lease"},
		"another's lease":    {200, jsons, `{"kind":"Lease","metadata":{"name":"turnwise-memory","uid":"u","resourceVersion":"1"}}`, driver.ErrDenied, "WithRoot"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(within(t, 20*time.Second), "default", saying(t, c.code, c.kind, c.text))
			storecheck.Refused(t, err, c.class, c.says)
		})
	}
	for name, c := range map[string]struct{ text, says string }{
		"a quota":  {refusing(403, "Forbidden", "leases is forbidden: exceeded quota: q", ""), "quota is used up"},
		"a policy": {refusing(403, "Forbidden", "denied by a webhook", ""), "webhook"},
	} {
		t.Run(name, func(t *testing.T) { // it may pass
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := Open(ctx, "default", saying(t, 403, jsons, c.text))
			storecheck.Refused(t, err, coord.ErrUnavailable, c.says)
		})
	}
}

func TestNobodyThereIsSaidInTime(t *testing.T) {
	storecheck.NobodyThere(t, "", func(ctx context.Context, address string) error {
		_, err := Open(ctx, "default", WithServer("https://"+address))
		return err
	})
}

func TestAServerThatLiesTakesLittleMemory(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
	for name, more := range map[string]string{
		"a name without end":  strings.Repeat("x", 64<<10),
		"silence":             "",
		"spaces without end":  strings.Repeat(" ", 64<<10),
		"nesting without end": strings.Repeat("[", 64<<10),
	} {
		t.Run(name, func(t *testing.T) {
			begin := head + `{"metadata":{"name":"`
			if !strings.HasPrefix(more, "x") {
				begin = head
			}
			address := storecheck.Serve(t, func(c net.Conn) {
				c.Read(make([]byte, 4096)) // what it is asked
				storecheck.Say(c, begin, more)
				io.Copy(io.Discard, c)
			})
			storecheck.Lies(t, "", func(ctx context.Context) (*Store, error) {
				return Open(ctx, "default", WithServer("http://"+address))
			})
		})
	}
}

// What comes after such an answer is the bare connection, and no ctx ends a read of it: a call, and then Close, would wait for as long as
// the server likes.
func TestAServerThatChangesToAnotherProtocolHoldsUpNobody(t *testing.T) {
	address := storecheck.Serve(t, func(c net.Conn) {
		c.Read(make([]byte, 4096)) // what it is asked
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
		io.Copy(io.Discard, c)
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := Open(within(t, 10*time.Second), "default", WithServer("http://"+address))
		storecheck.Refused(t, err, driver.ErrDenied, "no Kubernetes API server")
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("the server has said something, and whoever asked waits for more than that")
	}
}

// Empty leases are remembered until the list is over, to be taken away.
func TestAListOfEmptyLeasesTakesLittleMemory(t *testing.T) {
	const pages, size = 40, 1 << 19
	var s *Store
	var asked int
	var heap runtime.MemStats
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		all := leases{Kind: "LeaseList", Metadata: metadata{ResourceVersion: "1"}}
		if r.Method == http.MethodDelete {
			all.Kind = "Status"
		}
		if asked++; r.Method == http.MethodGet && asked < pages {
			key := fmt.Sprint("line/", asked)
			all.Metadata.Continue = "more"
			all.Items = []lease{{Metadata: metadata{Name: s.nameOf(key), Annotations: map[string]string{keyNote: key, "x": strings.Repeat("x", size)}}}}
		} else if asked == pages {
			runtime.GC()
			runtime.ReadMemStats(&heap)
		}
		_ = json.NewEncoder(w).Encode(all)
	}))
	t.Cleanup(server.Close)
	s = raw(t, []Option{WithServer(server.URL)})
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := s.list(within(t, 60*time.Second), &memory{}, "line/", func(register.Item) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if grown := int64(heap.HeapAlloc) - int64(before.HeapAlloc); asked <= pages || grown > pages*size/4 {
		t.Errorf("%d requests, and %d MB", asked, grown>>20)
	}
}

func TestAValueThatIsTooLargeIsRefusedBeforeItIsSent(t *testing.T) {
	f := newFake(t)
	s := opened(t, f.options(t)...)
	f.mu.Lock()
	before := f.asked["post"]
	f.mu.Unlock()
	w := register.Swap{Key: "k", Next: register.NewVersion(), Value: make([]byte, maxValue+1)}
	_, err := s.Swap(within(t, 10*time.Second), w)
	if !errors.Is(err, register.ErrTooLarge) || !strings.Contains(err.Error(), "150000") {
		t.Errorf("swap: %v", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked["post"] != before {
		t.Error("it was sent")
	}
}
