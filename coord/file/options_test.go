package file

import "testing"

func TestANilOptionChangesNothing(t *testing.T) {
	if c, err := configure([]Option{nil}); err != nil || c.Log == nil {
		t.Error("there is no logger")
	}
}
