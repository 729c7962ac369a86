package attempt

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAFailureIsReportedWithItsPlace(t *testing.T) {
	var order []string
	helper := func(t testing.TB) {
		t.Helper()
		t.Fatalf("%d apples", 3)
	}
	var line int
	a := Play(t, func(t testing.TB) {
		t.Cleanup(func() { order = append(order, "last") })
		t.Cleanup(func() { order = append(order, "first"); t.FailNow() })
		_, _, line, _ = runtime.Caller(0)
		t.Error("no", "thing")
		helper(t)
		order = append(order, "never")
	})
	if !slices.Equal(order, []string{"first", "last"}) {
		t.Errorf("cleaned up: %q", order)
	}
	var want []string
	for i, text := range []string{"nothing", "3 apples"} {
		want = append(want, fmt.Sprintf("attempt_test.go:%d: %s", line+1+i, text))
	}
	want = append(want, fmt.Sprintf("attempt_test.go:%d: failed", line-1))
	if !a.Failed() || !slices.Equal(a.Failures(), want) {
		t.Errorf("%q, want %q", a.Failures(), want)
	}
}

func TestASkippedAttemptIsSkipped(t *testing.T) {
	if a := Play(t, func(t testing.TB) { t.Skipf("no %s", "luck") }); a.WhySkipped() != "no luck" || a.Failed() {
		t.Errorf("%q, %q", a.WhySkipped(), a.Failures())
	}
	if a := Play(t, func(t testing.TB) { Insist(t, time.Hour, func(t testing.TB) { t.SkipNow() }) }); a.WhySkipped() != "skipped" {
		t.Errorf("%q", a.WhySkipped())
	}
}

func TestAFailureIsNotForgivenUnlessTheMachineStoodStill(t *testing.T) {
	plays := 0
	a := Play(t, func(t testing.TB) {
		Insist(t, time.Hour, func(t testing.TB) {
			plays++
			t.Error("wrong")
		})
	})
	if !a.Failed() || plays != 1 || !strings.HasSuffix(a.Failures()[0], "wrong") {
		t.Errorf("after %d plays: %q", plays, a.Failures())
	}
}

func TestWhatFailsWhileTheMachineStandsStillIsPlayedAgain(t *testing.T) {
	const allowed = -1 // it always stands still for longer than that
	for _, failing := range []int{1, tries - 1, tries, tries + 1} {
		plays := 0
		a := Play(t, func(t testing.TB) {
			Insist(t, allowed, func(t testing.TB) {
				if plays++; plays <= failing {
					t.Error("wrong")
				}
			})
		})
		if a.Failed() != (failing >= tries) {
			t.Errorf("it fails %d times, and at last: %q", failing, a.Failures())
		}
	}
}

func TestOnlyComputingIsCounted(t *testing.T) {
	if took := Computing(func() { time.Sleep(500 * time.Millisecond) }); took > 250*time.Millisecond {
		t.Errorf("half a second of sleep counts as %v", took)
	}
	var begun time.Time
	took := Computing(func() {
		for begun = time.Now(); time.Since(begun) < 100*time.Millisecond; {
		}
	})
	if took == 0 || took > time.Since(begun)*time.Duration(runtime.NumCPU()) {
		t.Errorf("a loop of %v counts as %v", time.Since(begun), took)
	}
}
