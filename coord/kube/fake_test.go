package kube

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake does what an API server does with leases, as far as our store notices. It has one namespace, "default", and one mutex,
// so it cannot show: two API servers of which one lags behind, a watch that is slow to begin, fairness among users, rights, or a
// request that is held up on its way. TestTheFakeAnswersAsTheServerDoes compares it with the real one.
type fake struct {
	server *httptest.Server

	mu      sync.Mutex
	changed *sync.Cond
	rev     int
	since   int // what came before is compacted
	uids    int
	all     map[string]map[string]any
	history []change
	closed  bool
	deaf    bool           // it opens no watches
	expire  bool           // the next list that would go on is too late
	asked   map[string]int // requests by verb
	ahead   time.Duration  // by how much its clock is, for what is made now
}

// change is one of an object. Either may be nil.
type change struct {
	rev         int
	before, now map[string]any
}

func newFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{rev: 100, all: map[string]map[string]any{}, asked: map[string]int{}}
	f.changed = sync.NewCond(&f.mu)
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.server.EnableHTTP2 = true
	f.server.StartTLS()
	t.Cleanup(func() {
		f.mu.Lock()
		f.closed = true
		f.changed.Broadcast()
		f.mu.Unlock()
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

// options are those by which a store finds the fake.
func (f *fake) options(t testing.TB) []Option {
	t.Helper()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return []Option{WithServer(f.server.URL), WithCAFile(ca)}
}

const fakePath = "/apis/coordination.k8s.io/v1/namespaces/"

func refuse(w http.ResponseWriter, code int, reason, message string, details map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "code": code, "reason": reason, "message": message, "details": details})
}

func answer(w http.ResponseWriter, code int, what any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(what)
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	rest, ok := strings.CutPrefix(r.URL.Path, fakePath)
	namespace, name, _ := strings.Cut(rest, "/leases")
	name = strings.TrimPrefix(name, "/")
	var body map[string]any
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			refuse(w, 400, "BadRequest", err.Error(), nil)
			return
		}
	}
	verb := strings.ToLower(r.Method)
	if r.Method == http.MethodGet && name == "" {
		verb = cmp.Or(map[bool]string{true: "watch"}[r.URL.Query().Has("watch")], "list")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[verb]++
	switch {
	case !ok:
		refuse(w, 404, "NotFound", "the server could not find the requested resource", nil)
	case namespace != "default" && (r.Method == http.MethodPost || r.Method == http.MethodPut):
		refuse(w, 404, "NotFound", fmt.Sprintf("namespaces %q not found", namespace), map[string]any{"name": namespace, "kind": "namespaces"})
	case verb == "watch":
		f.watch(w, r)
	case verb == "list":
		f.list(w, r, namespace)
	case r.Method == http.MethodGet:
		if l := f.all[name]; l != nil && namespace == "default" {
			answer(w, 200, l)
			return
		}
		f.notFound(w, name)
	case r.Method == http.MethodPost:
		name, _ = meta(body)["name"].(string)
		if f.all[name] != nil {
			refuse(w, 409, "AlreadyExists", "it is there", nil)
			return
		}
		f.write(w, r, name, body, 201)
	case r.Method == http.MethodPut:
		f.put(w, r, name, body)
	case r.Method == http.MethodDelete:
		f.delete(w, name, body)
	}
}

func meta(l map[string]any) map[string]any {
	m, _ := l["metadata"].(map[string]any)
	return m
}

func (f *fake) notFound(w http.ResponseWriter, name string) {
	refuse(w, 404, "NotFound", "there is none", map[string]any{"name": name, "kind": "leases"})
}

// fits reports whether what a request says of an object is so, and otherwise refuses it.
func (f *fake) fits(w http.ResponseWriter, there map[string]any, said map[string]any) bool {
	for _, field := range []string{"uid", "resourceVersion"} {
		if want, _ := said[field].(string); want != "" && want != there[field] {
			refuse(w, 409, "Conflict", "Precondition failed: "+field, nil)
			return false
		}
	}
	return true
}

// put makes an object that is not there, unless the request names a uid: so does the real one.
func (f *fake) put(w http.ResponseWriter, r *http.Request, name string, body map[string]any) {
	there := f.all[name]
	code := 200
	if there == nil {
		code, there = 201, map[string]any{"metadata": map[string]any{"resourceVersion": meta(body)["resourceVersion"]}}
	}
	if f.fits(w, meta(there), meta(body)) {
		f.write(w, r, name, body, code)
	}
}

func (f *fake) write(w http.ResponseWriter, r *http.Request, name string, body map[string]any, code int) {
	size := 0
	notes, _ := meta(body)["annotations"].(map[string]any)
	for k, v := range notes {
		size += len(k) + len(v.(string))
	}
	if size > 256<<10 {
		refuse(w, 422, "Invalid", "metadata.annotations: Too long: may not be more than 262144 bytes", nil)
		return
	}
	if r.URL.Query().Has("dryRun") {
		answer(w, code, body)
		return
	}
	before := f.all[name]
	m := meta(body)
	if before != nil && meta(before)["deletionTimestamp"] != nil && m["finalizers"] == nil {
		m["resourceVersion"], m["deletionTimestamp"] = meta(before)["resourceVersion"], meta(before)["deletionTimestamp"]
		m["uid"], m["creationTimestamp"] = meta(before)["uid"], meta(before)["creationTimestamp"]
		f.remove(name)
		answer(w, code, body)
		return
	}
	f.rev++
	m["resourceVersion"] = strconv.Itoa(f.rev)
	if before != nil {
		m["uid"], m["creationTimestamp"] = meta(before)["uid"], meta(before)["creationTimestamp"]
	} else {
		f.uids++
		m["uid"], m["creationTimestamp"] = fmt.Sprintf("uid-%d", f.uids), time.Now().Add(f.ahead).UTC().Format(time.RFC3339)
	}
	f.all[name] = body
	f.history = append(f.history, change{f.rev, before, body})
	f.changed.Broadcast()
	answer(w, code, body)
}

func (f *fake) delete(w http.ResponseWriter, name string, body map[string]any) {
	there := f.all[name]
	said, _ := body["preconditions"].(map[string]any)
	if there == nil {
		f.notFound(w, name)
		return
	}
	if !f.fits(w, meta(there), said) {
		return
	}
	if body["dryRun"] != nil {
		answer(w, 200, map[string]any{"kind": "Status", "status": "Success"})
		return
	}
	if meta(there)["finalizers"] == nil {
		f.remove(name)
		answer(w, 200, map[string]any{"kind": "Status", "status": "Success"})
		return
	}
	f.rev++
	going := withRevision(there, f.rev)
	meta(going)["deletionTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	f.all[name] = going
	f.history = append(f.history, change{f.rev, there, going})
	f.changed.Broadcast()
	answer(w, 200, going)
}

func (f *fake) remove(name string) {
	f.rev++
	f.history = append(f.history, change{f.rev, f.all[name], nil})
	delete(f.all, name)
	f.changed.Broadcast()
}

func chosen(l map[string]any, selector string) bool {
	if l == nil {
		return false
	}
	labels, _ := meta(l)["labels"].(map[string]any)
	for want := range strings.SplitSeq(selector, ",") {
		name, value, exact := strings.Cut(want, "=")
		if is, has := labels[name]; !has || exact && is != value {
			return false
		}
	}
	return true
}

func (f *fake) list(w http.ResponseWriter, r *http.Request, namespace string) {
	q := r.URL.Query()
	limit, _ := strconv.Atoi(q.Get("limit"))
	if f.expire && q.Has("continue") {
		f.expire = false
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(410)
		json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "code": 410, "reason": "Expired", "metadata": map[string]any{"continue": q.Get("continue")}})
		return
	}
	found := []map[string]any{}
	var names []string
	for name, l := range f.all {
		if namespace == "default" && name > q.Get("continue") && chosen(l, q.Get("labelSelector")) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	m := map[string]any{"resourceVersion": strconv.Itoa(f.rev)}
	if limit > 0 && len(names) > limit {
		names = names[:limit]
		m["continue"] = names[limit-1]
	}
	for _, name := range names {
		found = append(found, f.all[name])
	}
	answer(w, 200, map[string]any{"kind": "LeaseList", "metadata": m, "items": found})
}

// watch tells what changes, as somebody sees it who sees only what the selector shows.
func (f *fake) watch(w http.ResponseWriter, r *http.Request) {
	selector := r.URL.Query().Get("labelSelector")
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if f.deaf {
		refuse(w, 503, "ServiceUnavailable", "not now", nil)
		return
	}
	if from < f.since {
		refuse(w, 410, "Expired", "too old resource version", nil)
		return
	}
	end := r.Context().Done()
	defer afterFunc(end, func() {
		f.mu.Lock()
		f.changed.Broadcast()
		f.mu.Unlock()
	})()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(200)
	w.(http.Flusher).Flush()
	for at := 0; !f.closed && r.Context().Err() == nil; {
		var text bytes.Buffer
		for ; at < len(f.history); at++ {
			c := f.history[at]
			was, is := chosen(c.before, selector), chosen(c.now, selector)
			if c.rev <= from || !was && !is {
				continue
			}
			kind, object := "MODIFIED", c.now
			switch {
			case !is:
				kind, object = "DELETED", withRevision(c.before, c.rev)
			case !was:
				kind = "ADDED"
			}
			json.NewEncoder(&text).Encode(map[string]any{"type": kind, "object": object})
		}
		if text.Len() == 0 {
			f.changed.Wait()
			continue
		}
		f.mu.Unlock()
		_, err := w.Write(text.Bytes())
		w.(http.Flusher).Flush()
		f.mu.Lock()
		if err != nil {
			return
		}
	}
}

func withRevision(l map[string]any, rev int) map[string]any {
	b, _ := json.Marshal(l)
	var copied map[string]any
	json.Unmarshal(b, &copied)
	meta(copied)["resourceVersion"] = strconv.Itoa(rev)
	return copied
}

func afterFunc(done <-chan struct{}, do func()) (stop func()) {
	over := make(chan struct{})
	go func() {
		select {
		case <-done:
			do()
		case <-over:
		}
	}()
	return sync.OnceFunc(func() { close(over) })
}

// cut cuts all connections, and lets nobody watch while told is called.
func (f *fake) cut(told func()) {
	be := func(deaf bool) {
		f.mu.Lock()
		f.deaf = deaf
		f.mu.Unlock()
	}
	be(true)
	f.server.CloseClientConnections()
	told()
	be(false)
}

// keep returns a function that puts the fake back to how it is now, as a backup of etcd does. bump says by how much revisions
// are raised then.
func (f *fake) keep() (putBack func(bump int)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all, rev := maps.Clone(f.all), f.rev
	return func(bump int) {
		f.mu.Lock()
		f.all, f.rev, f.history, f.since = all, rev+bump, nil, rev+bump
		f.mu.Unlock()
		f.server.CloseClientConnections()
	}
}

// compact has the fake forget what it could tell watches that begin in the past, and ends those that there are.
func (f *fake) compact() {
	f.mu.Lock()
	f.since, f.history = f.rev, nil
	f.mu.Unlock()
	f.server.CloseClientConnections()
}
