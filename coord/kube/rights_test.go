package kube

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

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
	kubectl(t, c, http.MethodPost, roles, role(user, verbs...))
	kubectl(t, c, http.MethodPost, bindings, fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":%q},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":%q},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}]}`, user, user, user))
}

func role(user string, verbs ...string) string {
	return fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":%q},
		"rules":[{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["%s"]}]}`, user, strings.Join(verbs, `","`))
}

// allowOnly replaces the rights of a user.
func allowOnly(t testing.TB, c *servers.Cluster, user string, verbs ...string) {
	t.Helper()
	kubectl(t, c, http.MethodPut, roles+"/"+user, role(user, verbs...))
}
