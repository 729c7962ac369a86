package backend

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNamesFromElsewhereAreUnderstood(t *testing.T) {
	for there, here := range map[string]string{
		"rediss://h/3":              "redis://h/3?tls=yes",
		"REDISS://h?session=3s":     "redis://h?tls=yes&session=3s",
		"valkey://h":                "redis://h",
		"etcds://h/root":            "etcd://h/root?tls=yes",
		"zookeeper://h":             "zk://h",
		"postgresql://u@h/database": "postgres://u@h/database",
		"mariadb://u@h/database":    "mysql://u@h/database",
		"memcache://h":              "memcached://h",
		"k8s://shop":                "kube://shop",
		"kubernetes://shop":         "kube://shop",
	} {
		a, err := Parse(there)
		require.NoError(t, err, there)
		b, err := Parse(here)
		require.NoError(t, err, here)
		assert.Equal(t, b.ID(), a.ID(), there)
		assert.Equal(t, b.Scheme(), a.Scheme())
	}
	_, err := Parse("etc://h")
	assert.ErrorContains(t, err, "did you mean etcd?")
	_, err = Parse("consul://h")
	assert.ErrorContains(t, err, "use etcd, file, ")
	_, err = Parse("://h")
	assert.ErrorContains(t, err, "use etcd, file, ")
}
