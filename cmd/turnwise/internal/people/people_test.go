package people

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatIsReadIsWrittenBeforeWriteReturns(t *testing.T) {
	var b strings.Builder
	w := To(&b)
	for i := range 100 {
		n, err := fmt.Fprintln(w, i)
		require.NoError(t, err)
		assert.Equal(t, len(fmt.Sprintln(i)), n)
		require.True(t, strings.HasSuffix(b.String(), fmt.Sprintln(i)))
	}
	w.Flush(0)
}

// Who does not read keeps nobody waiting; if he reads later, he reads it all, in its order.
func TestWhoDoesNotReadHoldsNobodyUp(t *testing.T) {
	r, to := io.Pipe() // takes nothing that is not read
	defer r.Close()
	w := To(to)
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i := range 2 * mostKept {
			_, err := fmt.Fprintln(w, i)
			assert.Error(t, err)
		}
		w.Flush(patience)
	}()
	select {
	case <-written:
	case <-time.After(100 * patience):
		t.Fatal("it waits for who does not read")
	}
	lines := bufio.NewScanner(r)
	for i := range mostKept {
		require.True(t, lines.Scan())
		require.Equal(t, fmt.Sprint(i), lines.Text())
	}
	w.Flush(time.Minute)
	go fmt.Fprintln(w, "more")
	require.True(t, lines.Scan())
	assert.Equal(t, "more", lines.Text())
}
