package driverkit

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestALateAnswerMovesNoDeadlineBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDeadline()
		if time.Sleep(time.Millisecond); !d.Passed() {
			t.Fatal("nothing has been heard, and yet there is time")
		}
		sent := time.Now()
		d.Renewed(sent, 10*time.Second)
		d.Renewed(sent.Add(-time.Second), 10*time.Second)
		if got := d.Time().Sub(sent); got != 10*time.Second {
			t.Fatalf("it is %v after the sending", got)
		}
		if time.Sleep(10*time.Second - 1); d.Passed() {
			t.Fatal("it has passed too early")
		}
		if time.Sleep(time.Nanosecond); !d.Passed() {
			t.Fatal("it has not passed")
		}
	})
}

func TestAMaximumOfManyIsTheGreatest(t *testing.T) {
	var m Max
	var all sync.WaitGroup
	for i := range int64(1000) {
		all.Go(func() { m.Saw(i) })
	}
	all.Wait()
	if m.Load() != 999 {
		t.Fatal(m.Load())
	}
}
