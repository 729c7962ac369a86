package once

import (
	"bytes"
	"fmt"

	"github.com/turnwise/turnwise/coord"
)

// Record is what is noted of a slot.
type Record struct {
	Slot  int64
	Done  bool // else it began, and nobody has said that it went well
	Token coord.Token
}

const head = "turnwise once 1 "

func (r Record) encode() []byte {
	state := "begun"
	if r.Done {
		state = "done"
	}
	return fmt.Appendf(nil, "%s%d %s %d", head, r.Slot, state, r.Token)
}

// decode takes apart what encode has made, and nothing else. No memo is the zero Record.
func decode(memo []byte) (r Record, ok bool) {
	if len(memo) == 0 {
		return r, true
	}
	var state string
	if _, err := fmt.Sscanf(string(memo), head+"%d %s %d", &r.Slot, &state, &r.Token); err != nil {
		return Record{}, false
	}
	r.Done = state == "done"
	return r, bytes.Equal(r.encode(), memo)
}
