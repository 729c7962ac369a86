package kube

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/internal/storecheck"
	"github.com/turnwise/turnwise/verify/servers"
)

var allVerbs = []string{"get", "list", "watch", "create", "update", "delete"}

const (
	roles    = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
	bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
)

// kubectl does something as an administrator.
func kubectl(t testing.TB, c *servers.Cluster, method, path, body string) string {
	t.Helper()
	text, err := c.Member(0).KubeDo(within(t, 30*time.Second), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// allow gives a user of a cluster these rights on leases, and no others.
func allow(t testing.TB, c *servers.Cluster, user string, verbs ...string) {
	t.Helper()
	ctx := within(t, 30*time.Second)
	role := fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":%q},
		"rules":[{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["%s"]}]}`, user, strings.Join(verbs, `","`))
	if _, err := c.Member(0).KubeDo(ctx, http.MethodPut, roles+"/"+user, role); err != nil { // an update makes what is not there
		t.Fatal(err)
	}
	binding := fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":%q},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":%q},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}]}`, user, user, user)
	if _, err := c.Member(0).KubeDo(ctx, http.MethodPut, bindings+"/"+user, binding); err != nil {
		t.Fatal(err)
	}
	awaitRights(t, c, user, verbs...)
}

// awaitRights waits until the API server goes by a user's new rights.
func awaitRights(t testing.TB, c *servers.Cluster, user string, verbs ...string) {
	t.Helper()
	for _, verb := range allVerbs {
		review := fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":%q,
			"resourceAttributes":{"namespace":"default","verb":%q,"group":"coordination.k8s.io","resource":"leases"}}}`, user, verb)
		storecheck.Eventually(t, "the rights are known", func() bool {
			text := kubectl(t, c, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
			return strings.Contains(text, `"allowed":true`) == slices.Contains(verbs, verb)
		})
	}
}
