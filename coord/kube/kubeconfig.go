package kube

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
)

// kubeconfig is what a file of that name says.
type kubeconfig struct {
	Current  string `json:"current-context"`
	Contexts []struct {
		Name    string `json:"name"`
		Context struct {
			Cluster, User, Namespace string
		} `json:"context"`
	} `json:"contexts"`
	Clusters []struct {
		Name    string  `json:"name"`
		Cluster cluster `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string `json:"name"`
		User user   `json:"user"`
	} `json:"users"`
}

type cluster struct {
	Server     string `json:"server"`
	CAFile     string `json:"certificate-authority"`
	CA         []byte `json:"certificate-authority-data"`
	ServerName string `json:"tls-server-name"`
	Insecure   bool   `json:"insecure-skip-tls-verify"`
	Proxy      string `json:"proxy-url"`
}

type user struct {
	Token     string          `json:"token"`
	TokenFile string          `json:"tokenFile"`
	CertFile  string          `json:"client-certificate"`
	Cert      []byte          `json:"client-certificate-data"`
	KeyFile   string          `json:"client-key"`
	Key       []byte          `json:"client-key-data"`
	Exec      json.RawMessage `json:"exec"`
	Provider  json.RawMessage `json:"auth-provider"`
	Name      string          `json:"username"`

	As       json.RawMessage `json:"as"`
	AsUID    json.RawMessage `json:"as-uid"`
	AsGroups json.RawMessage `json:"as-groups"`
	AsExtra  json.RawMessage `json:"as-user-extra"`
}

// maxKubeconfig is far more than any has.
const maxKubeconfig = 4 << 20

// read takes what it can from the kubeconfig, and returns the namespace that it names.
func (a *access) read() (namespace string, err error) {
	text, err := os.ReadFile(a.kubeconfig)
	if err != nil {
		return "", pkg.Invalid("the kubeconfig: %w", err)
	}
	if text, err = a.inJSON(text); err != nil {
		return "", err
	}
	var k kubeconfig
	if err := json.Unmarshal(text, &k); err != nil {
		return "", pkg.Invalid("the kubeconfig %s is no kubeconfig: %w", a.kubeconfig, err)
	}
	chosen := a.context
	if chosen == "" {
		chosen = k.Current
	}
	for _, c := range k.Contexts {
		if c.Name != chosen {
			continue
		}
		if namespace = c.Context.Namespace; namespace == "" {
			namespace = "default"
		}
		if err := a.takeCluster(&k, c.Context.Cluster); err != nil {
			return "", err
		}
		return namespace, a.takeUser(&k, c.Context.User)
	}
	return "", pkg.Invalid("the kubeconfig %s has no context %q", a.kubeconfig, chosen)
}

// inJSON puts the text of a kubeconfig into JSON, unless it is that already.
func (a *access) inJSON(text []byte) ([]byte, error) {
	switch {
	case len(text) > maxKubeconfig:
		return nil, pkg.Invalid("the kubeconfig %s has %d bytes", a.kubeconfig, len(text))
	case bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")):
		return text, nil
	case a.toJSON == nil:
		return nil, pkg.Invalid("the kubeconfig %s is not JSON: write one with "+
			"`kubectl config view --raw --flatten --minify -o json`, or see WithYAML", a.kubeconfig)
	}
	inJSON, err := a.toJSON(text)
	if err != nil {
		return nil, pkg.Invalid("the kubeconfig %s is no YAML: %w", a.kubeconfig, err)
	}
	return inJSON, nil
}

func (a *access) takeCluster(k *kubeconfig, name string) error {
	for _, c := range k.Clusters {
		if c.Name != name {
			continue
		}
		switch {
		case c.Cluster.Insecure:
			return pkg.Invalid("the kubeconfig says insecure-skip-tls-verify: anybody on the way could take the server's place; name its certificate-authority")
		case c.Cluster.Proxy != "":
			return pkg.Invalid("the kubeconfig says proxy-url: set HTTPS_PROXY instead")
		}
		a.server, a.serverName, a.ca = c.Cluster.Server, c.Cluster.ServerName, c.Cluster.CA
		if a.ca == nil && a.caFile == "" {
			a.caFile = a.beside(c.Cluster.CAFile)
		}
		return nil
	}
	return pkg.Invalid("the kubeconfig %s has no cluster %q", a.kubeconfig, name)
}

func (a *access) takeUser(k *kubeconfig, name string) error {
	for _, u := range k.Users {
		if u.Name != name {
			continue
		}
		if u.User.Exec != nil || u.User.Provider != nil || u.User.Name != "" {
			return pkg.Invalid("the user %q of the kubeconfig logs in by another program, or by a password: use `kubectl proxy`", name)
		}
		if u.User.As != nil || u.User.AsUID != nil || u.User.AsGroups != nil || u.User.AsExtra != nil {
			return pkg.Invalid("the user %q of the kubeconfig acts as another one: use `kubectl proxy`", name)
		}
		a.cert, a.key = u.User.Cert, u.User.Key
		if a.certFile == "" && a.cert == nil {
			a.certFile = a.beside(u.User.CertFile)
		}
		if a.keyFile == "" && a.key == nil {
			a.keyFile = a.beside(u.User.KeyFile)
		}
		if a.token = u.User.Token; a.tokenFile == "" && u.User.TokenFile != "" {
			a.tokenFile = a.beside(u.User.TokenFile)
		}
		return nil
	}
	return nil // a cluster may let anybody in
}

// beside returns the path of a file that the kubeconfig names.
func (a *access) beside(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(a.kubeconfig), path)
}
