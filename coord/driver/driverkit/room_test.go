package driverkit

import (
	"testing"

	"github.com/turnwise/turnwise/coord/driver"
)

func TestThereIsRoomForSoMuchAndNoMore(t *testing.T) {
	r := NewRoom(100)
	loud := driver.Node{ID: "a", Kind: "lock", Owner: driver.Owner{Host: "0123456789", Label: "01234567890123456789"}, Data: make([]byte, 30)}
	if n := r.Keep(loud); n.Owner != loud.Owner || len(n.Data) != 30 {
		t.Errorf("it keeps %+v", n)
	}
	if n := r.Keep(driver.Node{Data: make([]byte, 40)}); len(n.Data) != 40 {
		t.Errorf("it keeps %d bytes where there is room for 40", len(n.Data))
	}
	if r.IsFull() {
		t.Error("it is full before there was no room for something")
	}
	if n := r.Keep(loud); n.ID != "a" || n.Kind != "lock" || n.Owner != (driver.Owner{}) || n.Data != nil {
		t.Errorf("it keeps %+v where there is no room", n)
	}
	if n := r.Keep(driver.Node{Data: []byte("x")}); n.Data != nil || !r.IsFull() {
		t.Error("there is room again")
	}
}
