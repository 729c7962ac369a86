package file

import "testing"

func TestANilOptionChangesNothing(t *testing.T) {
	if c := configure([]Option{nil}); c.log == nil {
		t.Error("there is no logger")
	}
}
