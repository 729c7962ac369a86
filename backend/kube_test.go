//go:build !turnwise_no_kube

package backend_test

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/backend"
	"github.com/turnwise/turnwise/coord"
)

// Kubeconfigs are in YAML everywhere.
func TestAKubeconfigInYAMLSaysWhereTheServerIsAndWhoWeAre(t *testing.T) {
	asked := make(chan string, 100)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.Header.Get("Authorization"):
		default:
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"kind":"Status","status":"Failure","reason":"Unauthorized","code":401,"message":"not today"}`)
	}))
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	path := filepath.Join(t.TempDir(), "config")
	open := func(text string) error {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		c, err := backend.Open(t.Context(), "kube://?kubeconfig="+url.QueryEscape(path))
		if err == nil {
			c.Close()
		}
		return err
	}
	err := open(fmt.Sprintf(`# as kubectl writes it
apiVersion: v1
kind: Config
current-context: "here"
contexts:
- context: {cluster: c, user: u, namespace: shop}
  name: here
clusters:
- name: c
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: u
  user:
    token: secret
`, server.URL, base64.StdEncoding.EncodeToString(ca)))
	assert.ErrorIs(t, err, coord.ErrDenied)
	assert.ErrorContains(t, err, "not today")
	assert.Equal(t, "Bearer secret", <-asked)

	err = open("a: b: c\n")
	assert.ErrorIs(t, err, coord.ErrInvalid)
	assert.ErrorContains(t, err, "is no YAML")
	assert.ErrorIs(t, open("a: &a [x, x]\nb: &b [*a, *a]\n? [1, 2]\n: 3\n"), coord.ErrInvalid)
}
