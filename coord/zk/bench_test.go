package zk

import (
	"testing"

	"github.com/turnwise/turnwise/coord/driver"
)

// What the one who joins last makes of a line of a thousand.
func BenchmarkALookAtAThousand(b *testing.B) {
	var names []string
	for i := range int32(1000) {
		names = append(names, contender{guid: newGUID(), kind: kindLock, seq: i}.name())
	}
	seen := &list{names: names}
	me := "/line/" + names[len(names)-1]
	st := &standing{line: "line", dir: "/line", names: []string{me}}
	for name, sight := range map[string]driver.Sight{"nearest": {}, "all": {All: true}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := st.ahead(seen, sight); !ok {
					b.Fatal("not in the line")
				}
			}
		})
	}
}
