package kube

import (
	"log/slog"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// pkg begins the errors of this package.
const pkg storekit.Package = "kube"

// Option sets up a store, and what stands on it. A nil Option changes nothing.
type Option func(*config)

type config struct {
	storekit.Settings
	root   string
	access access
}

const defaultRoot = "turnwise"

// WithRoot sets what the names of all leases begin with: 1 to 60 lower-case letters, digits and hyphens, with a letter or a
// digit at both ends. The default is "turnwise". Only processes with the same root meet in a line.
func WithRoot(root string) Option { return func(c *config) { c.root = root } }

// WithServer names the API server: https://host:port, or http://127.0.0.1:8001 for `kubectl proxy`. Without it [Open] takes
// the one of the pod that it runs in. It is for [Connect] and [Open].
func WithServer(url string) Option { return func(c *config) { c.access.server = url } }

// WithTokenFile names a file with a bearer token, which is read again as it changes. The default is the one that is mounted into
// a pod, if no server is named. It is for [Connect] and [Open].
func WithTokenFile(path string) Option { return func(c *config) { c.access.tokenFile = path } }

// WithCAFile names a file with the certificates (PEM) that the API server's must be signed by, which is read again as it
// changes. The default is the one that is mounted into a pod, if no server is named; elsewhere it is what the machine trusts.
// It is for [Connect] and [Open].
func WithCAFile(path string) Option { return func(c *config) { c.access.caFile = path } }

// WithClientCertificate names files (PEM) with a certificate and its key, by which the API server knows us. It is for [Connect]
// and [Open].
func WithClientCertificate(certificate, key string) Option {
	return func(c *config) { c.access.certFile, c.access.keyFile = certificate, key }
}

// WithKubeconfig has the server, its certificate authority and our credentials read from a kubeconfig in JSON, which this writes:
//
//	kubectl config view --raw --flatten --minify -o json > kubeconfig.json
//
// context chooses one of its contexts; with "" it is the current one. A kubeconfig in YAML needs [WithYAML]. One that has another
// program run for a token is refused: use `kubectl proxy`, or [New] with client-go's own rest.HTTPClientFor. It is for [Connect]
// and [Open].
func WithKubeconfig(path, context string) Option {
	return func(c *config) { c.access.kubeconfig, c.access.context = path, context }
}

// WithYAML has a kubeconfig in YAML put into JSON by toJSON, such as YAMLToJSON of sigs.k8s.io/yaml: this package needs no library
// for that. The URLs of package backend and of the tool read YAML. It is for [Connect] and [Open].
func WithYAML(toJSON func(yaml []byte) (json []byte, err error)) Option {
	return func(c *config) { c.access.toJSON = toJSON }
}

// WithTTL sets how long a session lasts if nothing is heard from its process: how soon a dead holder's line goes on, and how
// long a live holder may be cut off. The default is 10 s. Less than half a second is refused, and so is more than a day. A
// session is renewed several times in a TTL, and each renewal is a write to etcd: 30 s is kinder to a large cluster. It is for
// [Connect] and [New].
func WithTTL(ttl time.Duration) Option { return func(c *config) { c.TTL = ttl } }

// WithLongestTTL sets the longest TTL that anybody uses with this root: 10 s by default. After the cluster may have forgotten who
// holds, nobody is granted anything for that long, so that nobody enters beside a holder that does not know yet. All must say
// the same: a longer TTL is refused, and so is whoever says something else than those before. To change it, stop all, and
// delete the leases of the root. It is for [Connect], [New] and [Open]: whoever gives an open store to register.New says the same
// here as there.
func WithLongestTTL(longest time.Duration) Option { return func(c *config) { c.Longest = longest } }

// WithClient passes options on to the coord.Client that [Connect] makes. [Open] and [New] refuse it.
func WithClient(opts ...coord.Option) Option { return func(c *config) { c.AddClient(opts) } }

// WithLogger sets where the store logs trouble that it rides out. Without it nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.Log = l } }

func configure(way storekit.Way, opts []Option) (config, error) {
	c := config{root: defaultRoot}
	c.LongestAtOpen = true // see ageOf
	if err := storekit.Configure(pkg, way, &c, &c.Settings, opts); err != nil {
		return c, err
	}
	if !isLabel(c.root) || len(c.root) > 60 {
		return c, pkg.Invalid("WithRoot(%q): write 1 to 60 lower-case letters, digits and hyphens, no hyphen at an end", c.root)
	}
	return c, nil
}

// isLabel reports whether a text is what Kubernetes calls a DNS label, such as the name of a namespace.
func isLabel(text string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyz0123456789"
	return text != "" && len(text) <= 63 && strings.Trim(text, plain+"-") == "" &&
		strings.Trim(text[:1], plain) == "" && strings.Trim(text[len(text)-1:], plain) == ""
}
