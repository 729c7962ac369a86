package rules

import (
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord/driver"
)

func BenchmarkAReaderBehindAThousand(b *testing.B) {
	me, ahead := driver.Node{Kind: Reader}, line(strings.Repeat(Reader+" ", 1000))
	b.ReportAllocs()
	for b.Loop() {
		Shared(me, ahead)
	}
}

func BenchmarkOneOfAHundredPermitsBehindAThousand(b *testing.B) {
	kind := Permits(1, 100)
	me, ahead := driver.Node{Kind: kind}, line(strings.Repeat(kind+" ", 1000))
	b.ReportAllocs()
	for b.Loop() {
		Weighted(me, ahead)
	}
}
