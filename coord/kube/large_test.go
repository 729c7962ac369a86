package kube

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
)

// Whoever may create leases may create many that are as large as the API server takes them. That keeps nobody from listing the others.
func TestLeasesThatAreLargeKeepNobodyFromListingTheOthers(t *testing.T) {
	was := maxAnswer
	maxAnswer /= 16
	t.Cleanup(func() { maxAnswer = was })
	f := newFake(t)
	s := opened(t, f.options(t)...)
	put(t, s, register.Item{Key: "line/orders"}, "ours")
	for i := range 60 {
		large := &lease{APIVersion: group, Kind: "Lease", Spec: spec{Holder: strings.Repeat("x", 1_300_000/16)}, Metadata: metadata{
			Name: fmt.Sprint("large-", i), Labels: map[string]string{rootLabel: s.root, kindLabel: "line"}}}
		if err := s.ask(within(t, 10*time.Second), request{method: http.MethodPost, body: large}, nil); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]string{}
	if err := s.List(within(t, 30*time.Second), "line/", func(it register.Item) bool { found[it.Key] = string(it.Value); return true }); err != nil {
		t.Error(err)
	}
	if found["line/orders"] != "ours" {
		t.Errorf("listed: %q", found)
	}
}

// What is short on its way may be large when it is decoded.
func TestAListOfNothingTakesLittleMemory(t *testing.T) {
	for name, says := range map[string][3]string{
		"leases":      {`{"items":[{}`, `,{}`, `]}`},
		"labels":      {`{"items":[{"metadata":{"labels":{"a":""`, `,"%07d":""`, `}}}]}`},
		"annotations": {`{"items":[{"metadata":{"annotations":{"a":""`, `,"%07d":""`, `}}}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
				to.Header().Set("Content-Type", "application/json")
				w := bufio.NewWriterSize(to, 64<<10)
				defer w.Flush()
				fmt.Fprint(w, says[0])
				n, more := 0, says[1]
				for size := 0; size < 24<<20; size += len(more) {
					if strings.Contains(says[1], "%") {
						more = fmt.Sprintf(says[1], n)
						n++
					}
					if _, err := fmt.Fprint(w, more); err != nil {
						return
					}
				}
				fmt.Fprint(w, says[2])
			}))
			t.Cleanup(server.Close)
			s := raw(t, []Option{WithServer(server.URL)})
			storecheck.Bounded(t, 300, func() {
				if _, _, err := s.some(within(t, 5*time.Minute), &memory{}, "", "", page); !errors.Is(err, errTooMuch) {
					t.Errorf("it should be too much: %v", err)
				}
			})
		})
	}
}
