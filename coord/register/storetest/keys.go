package storetest

import (
	"strings"

	"github.com/turnwise/turnwise/coord/register"
)

var keys = []scenario{
	{name: "that look alike", run: keysLookAlike},
	{name: "of 1 to 1,100 bytes", run: keysOfAnyLength},
}

// alike are names of which some systems take one for another, or for a pattern, or for a path.
var alike = []string{
	"a", "A", "a ", " a", "a  ", "a/", "a/b", "a//b", "a/B", "ab", "aa", "a.", ".", "..", "a/../a", "a%", "a%b", "%", "_", "a_", "a_b", "axb",
	"*", "a*", "?", "a?", "[a]", "[^b]", "{a}", `\`, `a\`, `a\b`, `a\\b`, `a\%`, `a\x00`, "'", "a'b", "a''b", `"`, `a"b`, "`", "a`b", ";", "--", "/*",
	"$1", "a$b", ":", "a:b", "a%2Fb", "a%2fb", "a+b", "a b", "a&b", "#", "a#b", "~", "-", "-a", "@", "|", "<", ">", "a=b",
	"é", "e\u0301", "É", "ß", "ss", "SS", "ı", "i", "I", "İ", "ﬁ", "fi", "Å", "\u212b", "日本", "日本語", "😀", "😁", "\u00a0", "a\u00a0", "a\u200b", "\u200d", "\ufeffa", "\ufffd", "\U0010ffff",
	"CON", "nul", "a:$DATA", "null", "NULL", "0", "00", "1", "1.0", "1e0", "true",
}

func keysLookAlike(s *scene) {
	a, b := s.open(), s.open()
	want := map[string]register.Item{}
	for _, name := range alike {
		key := s.key(name)
		if it := s.read(a, key); !it.Version.IsZero() {
			s.Errorf("the key %q stands for %s", name, brief(it))
			continue
		}
		want[key] = s.put(a, key, register.Version{}, "this is "+name)
	}
	for _, it := range want {
		s.stands(b, it)
	}
	got := s.listed(b, s.prefix)
	for key, it := range want {
		s.same("what List showed", got[key], it)
	}
	if len(got) != len(want) {
		s.Errorf("%d registers are listed, want %d", len(got), len(want))
	}
	// Each is emptied by itself.
	for i, name := range alike {
		it, ok := want[s.key(name)]
		if !ok {
			continue
		}
		s.remove(a, it)
		if i%10 == 0 {
			for _, other := range alike[i+1:] {
				if it, ok := want[s.key(other)]; ok {
					s.stands(b, it)
				}
			}
		}
	}
}

func keysOfAnyLength(s *scene) {
	a, b := s.open(), s.open()
	var all []register.Item
	for _, size := range []int{len(s.prefix) + 1, 63, 64, 127, 128, 191, 192, 250, 251, 255, 256, 512, 767, 768, 1023, 1024, 1099, 1100} {
		for _, last := range []string{"x", "y"} { // keys that differ at the end only
			key := s.key(strings.Repeat("k", size-len(s.prefix)-1) + last)
			first := s.put(a, key, register.Version{}, last)
			all = append(all, s.put(b, key, first.Version, last+" again"))
		}
	}
	wide := s.key(strings.Repeat("語", (1100-len(s.prefix))/len("語")))
	all = append(all, s.put(a, wide, register.Version{}, "wide"))
	for _, it := range all {
		s.stands(b, it)
	}
	if got := s.listed(b, s.prefix); len(got) != len(all) {
		s.Errorf("%d are listed, want %d", len(got), len(all))
	}
	// A key of one byte belongs to nobody, so it is only read.
	if ctx, cancel := s.while(); ctx.Err() == nil {
		defer cancel()
		if it, err := a.Read(ctx, "~"); err != nil || it.Key != "~" {
			s.Errorf("Read of a key of one byte: %v, %v", brief(it), err)
		}
	}
}
