package etcd

import "testing"

func TestANilOptionChangesNothing(t *testing.T) {
	if _, _, err := configure([]Option{nil}); err != nil {
		t.Error(err)
	}
}
