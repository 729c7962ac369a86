package etcd

import (
	"context"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/turnwise/turnwise/internal/storecheck"
)

// What is short on its way may be large when it is decoded: an empty pair has two bytes.
func TestAnAnswerOfManyPairsTakesLittleMemory(t *testing.T) {
	pairs := []byte(strings.Repeat("\x12\x00", 8<<20)) // field 2 of a RangeResponse, 16 MiB in all
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		w.Write(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(pairs))))
		w.Write(pairs)
		w.Header().Set("Grpc-Status", "0")
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	storecheck.Bounded(t, 400, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		client, err := Connect(ctx, clientv3.Config{Endpoints: []string{strings.TrimPrefix(s.URL, "http://")}})
		if err == nil {
			client.Close()
		}
		t.Log(err)
	})
}
