package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/verify/servers"
)

// What our store goes by is asked of both, and they answer alike.
func TestTheFakeAnswersAsTheServerDoes(t *testing.T) {
	fake := conversation(t, newFake(t).options(t))
	real := conversation(t, as(t, servers.Kube(t, servers.Shared()), 0, servers.KubeAdmin))
	for i := range max(len(fake), len(real)) {
		if f, r := at(fake, i), at(real, i); f != r {
			t.Errorf("the fake says  %s\n               the server     %s", f, r)
		}
	}
}

func at(all []string, i int) string {
	if i < len(all) {
		return all[i]
	}
	return "nothing"
}

// conversation is what is said in a long talk with an API server.
func conversation(t *testing.T, opts []Option) (all []string) {
	t.Helper()
	s := raw(t, opts)
	root := freshRoot()
	name := root + "-a"
	object := func(at stand, labels map[string]string, value string) *lease {
		return &lease{APIVersion: group, Kind: "Lease", Metadata: metadata{Name: name, UID: at.uid, ResourceVersion: at.revision,
			Labels: labels, Annotations: map[string]string{valueNote: value}}}
	}
	mine := map[string]string{root: "yes"}
	say := func(what string, q request) (at stand) {
		t.Helper()
		var l lease
		err := s.ask(within(t, 20*time.Second), q, &l)
		var st *status
		switch {
		case errors.As(err, &st):
			all = append(all, fmt.Sprintf("%s: %d %s %s", what, st.Code, st.Reason, map[bool]string{true: "no namespace"}[st.noNamespace()]))
		case err != nil:
			t.Fatalf("%s: %v", what, err)
		default:
			all = append(all, fmt.Sprintf("%s: done, %q %q", what, l.Metadata.Annotations[valueNote], slices.Sorted(keys(l.Metadata.Labels))))
		}
		return stand{uid: l.Metadata.UID, revision: l.Metadata.ResourceVersion}
	}
	update := func(what string, at stand, labels map[string]string, value string) stand {
		return say(what, request{method: http.MethodPut, name: name, body: object(at, labels, value)})
	}
	all = append(all, "a list of none: "+strings.Join(listed(t, s, root), ","))
	var now leases
	if err := s.ask(within(t, 20*time.Second), request{method: http.MethodGet, query: url.Values{"labelSelector": {root}, "limit": {"1"}}}, &now); err != nil {
		t.Fatal(err)
	}
	first := say("make", request{method: http.MethodPost, body: object(stand{}, mine, "1")})
	say("make it again", request{method: http.MethodPost, body: object(stand{}, mine, "2")})
	second := update("change", first, nil, "3")
	update("change at an old version", first, mine, "4")
	update("change another object", stand{uid: "00000000-0000-0000-0000-000000000000", revision: second.revision}, mine, "5")
	third := update("change back", second, mine, "6")
	third = update("change and keep the label", third, mine, "7")
	dry := request{method: http.MethodPut, name: name, body: object(third, mine, "8"), query: url.Values{"dryRun": {"All"}}}
	say("change, but not really", dry)
	say("read", request{method: http.MethodGet, name: name})
	say("too much", request{method: http.MethodPut, name: name, body: object(third, mine, strings.Repeat("x", 257<<10))})
	all = append(all, "a list of one: "+strings.Join(listed(t, s, root), ","))
	say("delete an old version", deletion(name, first))
	say("delete another object", deletion(name, stand{uid: "00000000-0000-0000-0000-000000000000"}))
	say("delete, but not really", notReally(deletion(name, third)))
	say("delete", deletion(name, third))
	say("delete it again", deletion(name, third))
	say("read what is gone", request{method: http.MethodGet, name: name})
	update("change what is gone, by its uid", third, mine, "9")
	risen := update("change what is gone, by its version alone", stand{revision: third.revision}, mine, "10")
	say("delete what has risen", deletion(name, risen))
	held := object(stand{}, mine, "11")
	held.Metadata.Finalizers = []string{"example.com/wait"}
	waits := say("make one that waits for somebody", request{method: http.MethodPost, body: held})
	say("delete what waits", deletion(name, waits))
	going := say("read what waits", request{method: http.MethodGet, name: name})
	update("change what waits, at the old version", waits, mine, "12")
	gone := update("change what waits, so that it does not", going, mine, "13")
	all = append(all, fmt.Sprintf("its version is another: %t", gone != going))
	say("read what was changed", request{method: http.MethodGet, name: name})
	elsewhere := *s.base
	elsewhere.Path = strings.Replace(elsewhere.Path, "/default/", "/nowhere/", 1)
	s.base = &elsewhere
	say("read where nothing is", request{method: http.MethodGet, name: name})
	say("make where nothing is", request{method: http.MethodPost, body: object(stand{}, mine, "1")})
	all = append(all, "a list where nothing is: "+strings.Join(listed(t, s, root), ","))
	s = raw(t, opts)
	return append(all, watched(t, s, root, now.Metadata.ResourceVersion, 7)...)
}

func keys(m map[string]string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield("label " + fmt.Sprint(len(k))) {
				return
			}
		}
	}
}

func listed(t *testing.T, s *Store, label string) (values []string) {
	t.Helper()
	var l leases
	if err := s.ask(within(t, 20*time.Second), request{method: http.MethodGet, query: url.Values{"labelSelector": {label}}}, &l); err != nil {
		t.Fatal(err)
	}
	for _, it := range l.Items {
		values = append(values, it.Metadata.Annotations[valueNote])
	}
	return values
}

// watched returns the first events since a revision, as one sees them who watches a label.
func watched(t *testing.T, s *Store, label, since string, n int) (events []string) {
	t.Helper()
	resp, err := s.send(within(t, 20*time.Second), request{method: http.MethodGet, query: url.Values{
		"labelSelector": {label}, "watch": {"1"}, "resourceVersion": {since}, "timeoutSeconds": {"20"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for d := json.NewDecoder(resp.Body); len(events) < n; {
		var e event
		var l lease
		if err := d.Decode(&e); err != nil {
			t.Fatalf("after %q: %v", events, err)
		}
		json.Unmarshal(e.Object, &l)
		events = append(events, "event: "+e.Type+" "+l.Metadata.Annotations[valueNote])
	}
	return events
}
