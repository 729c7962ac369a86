package etcd

import (
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/internal/storecheck"
)

// A password that somebody writes into an endpoint, where none belongs, is not shown.
func TestAnErrorShowsNoPassword(t *testing.T) {
	for _, e := range []string{"me:secret@127.0.0.1:2379", "http://me:secret@127.0.0.1:2379", "https://me:secret@host/x", "me:secret@host"} {
		_, err := Connect(storecheck.Within(t, time.Second), clientv3.Config{Endpoints: []string{e}})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", e, err)
		}
	}
}
