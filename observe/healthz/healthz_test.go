package healthz_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/observe/healthz"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/verify/bubble"
)

func probe(t *testing.T, h http.Handler, url string) (code int, body map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body))
	return w.Code, body
}

func TestAProbeSaysHowTheClientStands(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		c := s.Client()
		handler := healthz.Handler(c, "a")
		h, err := mutex.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		code, body := probe(t, handler, "/readyz")
		assert.Equal(t, http.StatusOK, code)
		assert.Equal(t, true, body["ok"])
		assert.EqualValues(t, 1, body["holds"])

		heal := s.Partition(c)
		begun := time.Now()
		code, _ = probe(t, handler, "/readyz")
		assert.Equal(t, http.StatusOK, code, "it is not known yet")
		assert.Zero(t, time.Since(begun), "nobody was asked")
		code, body = probe(t, handler, "/readyz?ask")
		assert.Equal(t, http.StatusServiceUnavailable, code, "asked, the service does not answer")
		assert.NotEmpty(t, body["error"])
		begun = time.Now()
		code, _ = probe(t, handler, "/readyz?ask")
		assert.Equal(t, http.StatusServiceUnavailable, code)
		assert.Zero(t, time.Since(begun), "it was asked just now")

		time.Sleep(2 * time.Minute)
		code, _ = probe(t, handler, "/readyz")
		assert.Equal(t, http.StatusServiceUnavailable, code)
		heal()
		_ = h.Release()
		h, err = mutex.New(c, "a").Lock(t.Context())
		require.NoError(t, err)
		code, body = probe(t, handler, "/readyz?ask")
		assert.Equal(t, http.StatusOK, code, body)
		assert.NotEmpty(t, body["trouble"], "the last trouble stays")
		require.NoError(t, h.Release())
	})
}

func TestAProbeOnlyReads(t *testing.T) {
	bubble.Run(t, func(t *testing.T, s *mem.Service) {
		w := httptest.NewRecorder()
		healthz.Handler(s.Client(), "").ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
		assert.Equal(t, http.StatusMethodNotAllowed, w.Code)
	})
}

func ExampleHandler() {
	client := mem.New().Client() // or that of any other service
	http.Handle("/readyz", healthz.Handler(client, "orders"))
	// GET /readyz asks nobody; GET /readyz?ask asks the service who is first in the line "orders".
}
