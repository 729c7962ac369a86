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

// flood is the address of something that answers each request with the beginning of a message of that many bytes, and then
// with zeros for as long as anybody reads.
func flood(t *testing.T, size uint32) string {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Write(binary.BigEndian.AppendUint32([]byte{0}, size))
		for zeros := make([]byte, 64<<10); r.Context().Err() == nil; {
			if _, err := w.Write(zeros); err != nil {
				return
			}
		}
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// The library takes an answer of any size, in the server's word, before anybody has said who he is.
func TestAnAnswerOfAGigabyteTakesLittleMemory(t *testing.T) {
	address := flood(t, 1<<30)
	storecheck.Bounded(t, 200, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		if client, err := Connect(ctx, clientv3.Config{Endpoints: []string{address}}); err == nil {
			client.Close()
			t.Error("connected")
		} else {
			t.Log(err)
		}
	})
}
