package driver

import "testing"

var (
	strong = Strength{Order: FirstCome, Death: ByTTL, Restart: Remembers, Failover: Remembers, Tokens: RiseForEver, WakeUp: Told}
	files  = Strength{Order: FirstCome, Death: ByKernel, Restart: Remembers, Failover: NoFailover, Tokens: RiseForEver, WakeUp: Told}
)

func TestWhoAsksForNothingTakesAnyService(t *testing.T) {
	for _, s := range []Strength{{}, strong, files} {
		if lacks := s.Lacks(Strength{}); lacks != "" {
			t.Errorf("%v: %s", s, lacks)
		}
	}
}

func TestAServicePromisesWhatItPromises(t *testing.T) {
	for _, s := range []Strength{strong, files, {Death: ByTTL | ByKernel}} {
		if lacks := s.Lacks(s); lacks != "" {
			t.Errorf("%v: %s", s, lacks)
		}
	}
}

func TestEachFieldIsAskedForByItself(t *testing.T) {
	for _, needed := range []Strength{
		{Order: FirstCome},
		{Death: ByTTL}, {Death: ByKernel},
		{Restart: ForgetsOpenly}, {Restart: Remembers},
		{Failover: ForgetsOpenly}, {Failover: Remembers},
		{Tokens: RiseForEver},
		{WakeUp: Told},
	} {
		if (Strength{}).Lacks(needed) == "" {
			t.Errorf("who promises nothing is taken for %v", needed)
		}
		if lacks := needed.Lacks(needed); lacks != "" {
			t.Errorf("who promises just that: %s", lacks)
		}
	}
}

func TestWhoPromisesMorePromisesLessToo(t *testing.T) {
	for more, less := range map[Strength]Strength{
		{Restart: Remembers}:      {Restart: ForgetsOpenly},
		{Failover: Remembers}:     {Failover: ForgetsOpenly},
		{Death: ByTTL | ByKernel}: {Death: ByTTL},
	} {
		if lacks := more.Lacks(less); lacks != "" {
			t.Error(lacks)
		}
		if less.Lacks(more) == "" {
			t.Errorf("%v is taken for %v", less, more)
		}
	}
}

func TestATTLIsNoKernelAndAKernelNoTTL(t *testing.T) {
	if strong.Lacks(Strength{Death: ByKernel}) == "" || files.Lacks(Strength{Death: ByTTL}) == "" {
		t.Error("one is taken for the other")
	}
}

// A program that asks for a fail-over that remembers wants somebody to take over.
func TestWhereNobodyTakesOverNobodyRemembers(t *testing.T) {
	want := "asked for: a fail-over remembers every answered write; promised: a fail-over does not exist"
	if got := files.Lacks(Strength{Failover: Remembers, Restart: Remembers}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if lacks := (Strength{}).Lacks(Strength{Restart: NoFailover, Failover: NoFailover}); lacks != "" {
		t.Errorf("that nobody takes over is nothing to ask for: %s", lacks)
	}
}

func TestWhatIsLackingFitsOnALine(t *testing.T) {
	want := "asked for: a death is noticed by a TTL, waiters are told; promised: a death is noticed by the kernel, waiters poll"
	if got := (Strength{Death: ByKernel}).Lacks(Strength{Death: ByTTL, WakeUp: Told}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestALabelReadsAsASentence(t *testing.T) {
	want := "turns come first come, first served; a death is noticed by the kernel; a restart remembers every answered write; " +
		"a fail-over does not exist; tokens rise for ever; waiters are told"
	if got := files.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Recall(7).String(); got != "unknown (7)" {
		t.Errorf("%q", got)
	}
}
