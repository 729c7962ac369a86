package rules

import (
	"strings"
	"testing"

	"github.com/turnwise/turnwise/coord/driver"
)

// FuzzKinds has a line of nodes of any kinds, as somebody may write who stands in it. Whatever they are, no rule fails, each
// waits only for those ahead, and who is alone waits for nobody.
func FuzzKinds(f *testing.F) {
	for _, kinds := range []string{"", "lock", "lock read read lock", "S1of3 S2of3 S3of3", "Q9223372036854775807of9223372036854775807 S1of1 G1of2",
		"S0of1 S-1of3 Sof S1of S99999999999999999999of1", "read Q1of1 lock G1of9223372036854775807 S1of1", "S1of2 S1of1 S9of2", "\x00 \xff"} {
		f.Add(kinds)
	}
	f.Fuzz(func(t *testing.T, kinds string) {
		var ahead []driver.Node
		for i, kind := range strings.Split(kinds, " ") {
			if i == 200 {
				break
			}
			me := driver.Node{Kind: kind, Token: driver.Token(i + 1)}
			for _, rule := range []WaitFor{For(kind), Exclusive, Shared, Weighted} {
				wait := rule(me, ahead)
				if len(wait) > len(ahead) {
					t.Fatalf("%q waits for %v", kind, wait)
				}
				for _, w := range wait {
					if w.Token >= me.Token || w.Token < 1 {
						t.Fatalf("%q waits for %v", kind, w)
					}
				}
			}
			ahead = append(ahead, me)
			if turns := Turns(ahead); len(turns) != len(ahead) || i == 0 && !turns[0] {
				t.Fatalf("of %q it is the turn of %v", kinds, turns)
			}
		}
	})
}
