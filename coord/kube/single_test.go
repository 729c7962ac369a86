package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/servers"
)

// grant gives the stranger what a rule of a Role says, and nothing else.
func (n *neighbours) grant(t *testing.T, rule string) {
	t.Helper()
	kubectl(t, n.Cluster, http.MethodPut, roles+"/two", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"two"},"rules":[`+rule+`]}`)
}

// A Role can name the objects that somebody may update. He makes his one look like others, tells whom he likes, and has it wait for him.
func TestAStrangerWhoMayUpdateOneLeaseHarmsNoOther(t *testing.T) {
	n := neighbour(t, "none")
	h := n.lock(t, n.client, "orders")
	if err := n.lock(t, n.client, "his").Release(); err != nil {
		t.Fatal(err)
	}
	keeper := opened(t, append(as(t, n.Cluster, 0, servers.KubeToken("one")), WithRoot(n.stranger.root))...)
	ours := read(t, keeper, lineKey)
	put(t, keeper, read(t, keeper, "line/his"), "something")
	name := n.stranger.nameOf("line/his")
	n.grant(t, fmt.Sprintf(`{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"resourceNames":[%q],"verbs":["get","update","patch"]}`, name))
	var l lease
	storecheck.Eventually(t, "he may", func() bool {
		return n.stranger.ask(within(t, 10*time.Second), request{method: http.MethodGet, name: name}, &l) == nil
	})
	l.Metadata.Annotations = n.stranger.compose(&register.Swap{Key: lineKey, Next: ours.Version, Value: []byte("nonsense")}, stand{}).Metadata.Annotations
	session, _, _ := strings.Cut(h.Node().ID, "-")
	for _, topic := range []string{lineKey, "session/" + session} {
		l.Metadata.Labels[n.stranger.labelOf(topic)] = ""
	}
	l.Metadata.Annotations[notesNote] = "nonsense"
	l.Metadata.Finalizers = []string{"mallory.example/wait"}
	n.may(t, true, request{method: http.MethodPut, name: name, body: &l}, nil)
	n.may(t, false, request{method: http.MethodGet, name: n.stranger.nameOf(lineKey)}, &lease{})
	n.may(t, false, request{method: http.MethodPut, name: n.stranger.markName(), body: &l}, nil)
	if got := read(t, keeper, lineKey); got.Version != ours.Version || !bytes.Equal(got.Value, ours.Value) {
		t.Errorf("the other line is %q", got.Value)
	}
	found := 0
	if err := keeper.List(within(t, 20*time.Second), "line/", func(it register.Item) bool {
		if it.Key == lineKey {
			found++
		}
		return true
	}); err != nil || found != 1 {
		t.Errorf("the other line is listed %d times, %v", found, err)
	}
	storecheck.IsBusy(t, connected(t, n.opts), "orders")
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	storecheck.ShutsOut(t, n.client, connected(t, n.opts), "orders")
}

// deletecollection is another right than delete, and a selector of fields makes it the same.
func TestAStrangerWhoMayDeleteCollectionsTakesSingleLines(t *testing.T) {
	n := neighbour(t, "deletecollection")
	n.may(t, false, request{method: http.MethodDelete, name: n.stranger.nameOf(lineKey)}, nil)
	storecheck.LineTaken(t, n.client, connected(t, n.opts), func() {
		resp, err := n.stranger.send(within(t, 10*time.Second), request{method: http.MethodDelete,
			query: url.Values{"fieldSelector": {"metadata.name=" + n.stranger.nameOf(lineKey)}}, body: map[string]any{}})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	})
}

// Who may make tokens of our service account needs no right on leases.
func TestAStrangerWhoMayMakeTokensIsWhomHeLikes(t *testing.T) {
	n := neighbour(t, "none")
	account := freshRoot()
	kubectl(t, n.Cluster, http.MethodPost, "/api/v1/namespaces/default/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"`+account+`"}}`)
	kubectl(t, n.Cluster, http.MethodPost, bindings, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"`+account+`"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"one"},"subjects":[{"kind":"ServiceAccount","name":"`+account+`","namespace":"default"}]}`)
	n.grant(t, `{"apiGroups":[""],"resources":["serviceaccounts/token"],"verbs":["create"]}`)
	at := *n.stranger.base
	at.Path = "/api/v1/namespaces/default/serviceaccounts/" + account + "/token"
	var made struct {
		Status struct{ Token string }
	}
	storecheck.Eventually(t, "he gets a token", func() bool {
		resp, err := n.stranger.client.Post(at.String(), "application/json", strings.NewReader(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`))
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return json.Unmarshal(text, &made) == nil && made.Status.Token != ""
	})
	his := opened(t, append(as(t, n.Cluster, 0, made.Status.Token), WithRoot(n.stranger.root))...)
	put(t, his, read(t, his, "line/orders"), "nonsense")
}

// By a quota he says how many leases there may be: none beyond those that are there.
func TestAStrangerWhoMayMakeQuotasKeepsOthersFromJoining(t *testing.T) {
	const quotas = "/api/v1/namespaces/default/resourcequotas"
	n := neighbour(t, "none")
	h := n.lock(t, n.client, "orders")
	n.grant(t, `{"apiGroups":[""],"resources":["resourcequotas"],"verbs":["create"]}`)
	at, name := *n.stranger.base, freshRoot()
	at.Path = quotas
	none := `"hard":{"count/leases.coordination.k8s.io":"0"}`
	quota := `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"` + name + `"},"spec":{` + none + `}`
	storecheck.Eventually(t, "he makes a quota", func() bool {
		resp, err := n.stranger.client.Post(at.String(), "application/json", strings.NewReader(quota+`}`))
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusCreated
	})
	// The controller manager does this, of which there is none here.
	kubectl(t, n.Cluster, http.MethodPut, quotas+"/"+name+"/status", quota+`,"status":{`+none+`,"used":{"count/leases.coordination.k8s.io":"2"}}}`)
	remove := sync.OnceFunc(func() { kubectl(t, n.Cluster, http.MethodDelete, quotas+"/"+name, `{}`) })
	defer remove()
	other := connected(t, n.opts)
	var err error
	storecheck.Eventually(t, "nobody joins", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		l, failed := mutex.New(other, "another").Lock(ctx)
		if failed == nil {
			_ = l.Release()
		}
		err = failed
		return failed != nil
	})
	storecheck.Refused(t, err, coord.ErrUnavailable, "quota")
	time.Sleep(4 * time.Second) // two TTLs
	if err := h.Err(); err != nil {
		t.Errorf("the holder: %v", err)
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	remove()
	storecheck.Eventually(t, "it goes on", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		l, err := mutex.New(other, "another").Lock(ctx)
		return err == nil && l.Release() == nil
	})
}
