package zk

import (
	"testing"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/driver/rules"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// This is what the last of a thousand in line does with the list.
func BenchmarkALookAtAThousand(b *testing.B) {
	var names []string
	for i := range int32(1000) {
		names = append(names, contender{guid: newGUID(), kind: rules.Lock, seq: i}.name())
	}
	seen := &wire.Listing{Names: names}
	me := "/line/" + names[len(names)-1]
	for name, sight := range map[string]driver.Sight{"nearest": {}, "all": {Nearest: driver.All}} {
		b.Run(name, func(b *testing.B) {
			p := &place{dir: "/line", sight: sight, paths: []string{me}}
			b.ReportAllocs()
			for b.Loop() {
				if _, _, ok := p.pick(seen); !ok {
					b.Fatal("not in the line")
				}
			}
		})
	}
}
