//go:build !turnwise_no_kube

package backend

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/kube"
)

func init() { services["kube"] = kubes }

func kubes(t *target) (connect, error) {
	root, server, token := t.params.text("root"), t.params.text("server"), t.params.text("token-file")
	kubeconfig, in := t.params.text("kubeconfig"), t.params.text("context")
	ca, cert, key := t.params.text("ca"), t.params.text("cert"), t.params.text("key")
	namespace := strings.Join(t.hosts, ",")
	if err := cmp.Or(t.noPath(), t.noUser(), t.withLongest()); err != nil {
		return nil, err
	}
	switch {
	case strings.Contains(namespace, ":") || strings.Contains(namespace, ","):
		return nil, fmt.Errorf("%q is no namespace: write kube://namespace?server=https://host:port", namespace)
	case server != "" && kubeconfig != "":
		return nil, errors.New("server and kubeconfig both say where the API server is: keep one of them")
	case in != "" && kubeconfig == "":
		return nil, errors.New("context is one of a kubeconfig, and the URL names none")
	case (cert == "") != (key == ""):
		return nil, errors.New("cert and key go together")
	}
	var opts []kube.Option
	for _, o := range []struct {
		value  string
		option kube.Option
	}{
		{root, kube.WithRoot(root)}, {server, kube.WithServer(server)}, {token, kube.WithTokenFile(token)}, {ca, kube.WithCAFile(ca)},
		{cert, kube.WithClientCertificate(cert, key)}, {kubeconfig, kube.WithKubeconfig(kubeconfig, in)},
	} {
		if o.value != "" {
			opts = append(opts, o.option)
		}
	}
	return func(ctx context.Context, c config) (*coord.Client, error) {
		opts := append([]kube.Option{kube.WithLogger(c.log), kube.WithClient(c.client...), kube.WithYAML(yamlToJSON)}, opts...)
		if c.ttl > 0 {
			opts = append(opts, kube.WithTTL(c.ttl))
		}
		if c.longest > 0 {
			opts = append(opts, kube.WithLongestTTL(c.longest))
		}
		return kube.Connect(ctx, namespace, opts...)
	}, nil
}

func yamlToJSON(text []byte) ([]byte, error) {
	var all any
	if err := yaml.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}
