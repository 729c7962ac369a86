package examples_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/turnwise/turnwise/verify/servers"
)

// Kubernetes takes the manifests as they are, and the Role in the documentation is the same.
func TestKubeTakesTheManifests(t *testing.T) {
	text, err := os.ReadFile("kubernetes/deploy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "---\n")
	if len(parts) != 4 || !strings.Contains(string(doc), "```yaml\n"+parts[1]+"```") {
		t.Error("docs/kubernetes.md has another Role")
	}
	_, contender, _ := strings.Cut(string(doc), "```yaml\n      containers:\n")
	contender, _, _ = strings.Cut(contender, "```")
	pods, _, _ := strings.Cut(parts[len(parts)-1], "      containers:\n")
	c := servers.Kube(t, servers.Shared())
	for _, part := range append(parts, pods+"      containers:\n"+contender) {
		kind := regexp.MustCompile(`(?m)^kind: (\w+)$`).FindStringSubmatch(part)[1]
		path := map[string]string{
			"ServiceAccount": "/api/v1/namespaces/default/serviceaccounts",
			"Role":           "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
			"RoleBinding":    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
			"Deployment":     "/apis/apps/v1/namespaces/default/deployments",
		}[kind]
		if _, err := c.Member(0).KubeDo(t.Context(), http.MethodPost, path+"?dryRun=All&fieldValidation=Strict", part); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
