package driver

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestACardTellsOwnerAndData(t *testing.T) {
	o := Owner{Host: `host "x"`, PID: 4711, Label: "a b\n\x00ü", Since: time.Date(2026, 1, 2, 15, 4, 5, 123e6, time.UTC)}
	for _, data := range [][]byte{nil, []byte("10.0.0.1:80"), []byte("\n\nturnwise 1 ")} {
		owner, got := DecodeCard(EncodeCard(o, data))
		if owner != o || !bytes.Equal(got, data) {
			t.Errorf("%+v %q, want %+v %q", owner, got, o, data)
		}
	}
}

func TestWhatIsNoCardIsForeignData(t *testing.T) {
	for _, raw := range []string{"", "x", "turnwise 1 ", "turnwise 1 \"h\" x \"l\" now\n", "turnwise 2", "turnwise 2 x", "turnwise kind \"h\"", "turnwise 0 \"h\"", "turnwise 01 \"h\""} {
		owner, data := DecodeCard([]byte(raw))
		if owner != (Owner{}) || string(data) != raw {
			t.Errorf("%q: %+v %q", raw, owner, data)
		}
	}
}

// A card of a newer version is not taken for what its owner says, which programs act on: an election's value is an address.
func TestACardOfANewerVersionIsNoData(t *testing.T) {
	for _, raw := range []string{"turnwise 2 \"h\" 1 \"l\"\n10.0.0.1:80", "turnwise 17 \"h"} {
		owner, data := DecodeCard([]byte(raw))
		if data != nil || owner.Label != newerCard {
			t.Errorf("%q: %+v %q", raw, owner, data)
		}
	}
}

// Who may write a card says who he is at any length. Those who wait show it with each change.
func TestANameOnACardIsNoLongerThanWeWriteOne(t *testing.T) {
	long := strings.Repeat("\U000e0001", 3<<18)
	owner, data := DecodeCard(EncodeCard(Owner{Host: long, PID: 7, Label: "x" + long}, []byte("data")))
	if owner.Host != long[:252] || owner.Label != ("x" + long)[:1021] || owner.PID != 7 || string(data) != "data" {
		t.Errorf("host of %d bytes, label of %d, PID %d, %.20q", len(owner.Host), len(owner.Label), owner.PID, data)
	}
	ours := Owner{Host: strings.Repeat("h", MaxHost), Label: strings.Repeat("l", MaxLabel), Since: time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)}
	if owner, _ := DecodeCard(EncodeCard(ours, nil)); owner != ours {
		t.Errorf("%+v, want %+v", owner, ours)
	}
}

func FuzzCards(f *testing.F) {
	f.Add(EncodeCard(Owner{Host: "h", PID: 1, Label: "l"}, []byte("data")))
	f.Add([]byte("turnwise 1 \"h\" 1 \"l\" 2026-01-02T15:04:05.123Z\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		owner, data := DecodeCard(raw)
		again, same := DecodeCard(EncodeCard(owner, data))
		if owner != (Owner{}) && (again != owner || !bytes.Equal(same, data)) {
			t.Errorf("%+v %q became %+v %q", owner, data, again, same)
		}
	})
}
