package coord

import (
	"bytes"
	"testing"
)

// FuzzRemarks reads what others have written into their nodes: what is taken for a remark is one that we would write, and nothing
// of the data is lost.
func FuzzRemarks(f *testing.F) {
	for _, data := range []string{"", turnHead, turnHead + turnTime, turnHead + turnTime + "\n", turnHead + turnTime + "\nmore",
		turnHead + "2026-02-30T00:00:00.000Z\n", turnHead + "2026-02-03T00:00:00,000Z\n", turnHead + "0000-01-01T00:00:00.000Z\n\x00",
		turnHead + "0001-01-01T00:00:00.000Z\n", rankHead + "3\n", rankHead + "+3\n" + asksHead + "please\n", rankHead + "-3\n" + asksHead + "please\nmore",
		rankHead + "0\n", asksHead + "\n", asksHead + "\x1b\n", asksHead + "a\n" + rankHead + "1\n", rankHead + "1\n" + rankHead + "2\n",
		dataHead + rankHead + "1\n", dataHead + dataHead + asksHead + "a\n", rankHead + "1\n" + dataHead + rankHead + "2\n", dataHead + "more",
		traceHead + "a\n" + turnHead + turnTime + "\n", turnHead + turnTime + "\n" + traceHead + "a\n", traceHead + "\n", asksHead + "a\n" + traceHead + "b\x01\n"} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n := readRemarks(Node{Data: data})
		again := append(remarks{n.Rank, n.Asks, n.Trace, n.Turn}.before(n.Data), n.Data...)
		if !bytes.Equal(again, data) && len(data) <= MaxData {
			t.Errorf("%q is read as %+v, and that is %q", data, n, again)
		}
	})
}
