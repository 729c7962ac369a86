package storetest

import (
	"strings"
	"sync"
	"testing"

	"github.com/turnwise/turnwise/internal/attempt"
)

// TestSuiteCatches plants each flaw in a store in memory and plays the scenarios meant to catch it: they must fail.
// TestMemory shows that they pass without the flaw.
func TestSuiteCatches(t *testing.T) {
	t.Setenv(attempt.PatienceVariable, "3s") // for what does not happen
	places := make(chan struct{}, 8)
	var all sync.WaitGroup
	var alone []func()
	for f, names := range caughtBy {
		for _, name := range names {
			sc := find(t, name)
			check := func() {
				t.Run(string(f)+"/"+name, func(t *testing.T) {
					var a *attempt.Attempt
					for range 5 { // some flaws need luck with the timing
						a = attempt.Play(t, func(t testing.TB) { sc.play(t, flawedSystem(t, f)) })
						if a.Failed() {
							t.Log(a.Failures()[0])
							return
						}
					}
					t.Errorf("not caught (skipped: %q)", a.WhySkipped())
				})
			}
			if sc.alone {
				alone = append(alone, check)
				continue
			}
			all.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				check()
			})
		}
	}
	all.Wait()
	for _, check := range alone {
		check()
	}
}

// TestFlawlessPasses shows that what the flaws are planted in is not caught by itself, with all that a System may have.
func TestFlawlessPasses(t *testing.T) {
	Run(t, func(t testing.TB) *System { return flawedSystem(t, flawless) })
}

// find returns the scenario of this name, which begins with the number of its obligation.
func find(t testing.TB, name string) scenario {
	t.Helper()
	for _, o := range obligations {
		for _, sc := range o.scenarios {
			if number, _, _ := strings.Cut(o.name, " "); number+" "+sc.name == name {
				return sc
			}
		}
	}
	t.Fatalf("there is no scenario %q", name)
	return scenario{}
}

var caughtBy = map[flaw][]string{
	deleteIgnoresVersion:  {"01 a conflict brings what stands there", "01 a try that comes late finds that it is late", "01 of many that replace or delete one wins"},
	swapIgnoresVersion:    {"01 of many one wins", "01 many count, and no number is lost or given twice"},
	secondTryConflicts:    {"01 a second try is a success", "07 that ends at any moment"},
	secondTryApplied:      {"01 a second try is a success", "06 a second try tells nobody again"},
	versionCounts:         {"01 a try that comes late finds that it is late"},
	valuesCompared:        {"01 a value that comes back is another one"},
	checkedThenSwapped:    {"01 of many one wins", "01 many count, and no number is lost or given twice"},
	conflictIsBare:        {"01 a conflict brings what stands there", "01 of many one wins"},
	conflictIsStale:       {"01 many count, and no number is lost or given twice", "01 of many one wins"},
	emptyValueIsNothing:   {"01 an empty register has a key and nothing else", "04 of any kind"},
	readIsStale:           {"02 another store sees a swap as soon as it is answered", "02 nobody sees it go back"},
	keysFold:              {"03 that look alike"},
	keysTrimmed:           {"03 that look alike"},
	keysCut:               {"03 of 1 to 1,100 bytes"},
	keysNormalized:        {"03 that look alike"},
	valueCut:              {"04 as large as is allowed"},
	valueEndsAtZero:       {"04 of any kind"},
	tooLargeApplied:       {"04 that is too large changes nothing"},
	prefixIsPattern:       {"05 shows the keys that begin with the prefix"},
	prefixCut:             {"05 shows the keys that begin with the prefix"},
	listMissesBusy:        {"05 while others swap"},
	listPaged:             {"05 of many"},
	listHoldsLock:         {"05 whoever is shown a register may use the store"},
	listGoesOn:            {"05 ends when it is told to"},
	noteEarly:             {"06 what a note tells can be read"},
	noteOnConflict:        {"06 a swap that is not applied tells nobody"},
	notesShuffled:         {"06 in the order of the swaps"},
	notesLost:             {"06 in the order of the swaps", "06 many listen to one topic"},
	notesLostWhenSlow:     {"06 one who is slow does not lose in silence"},
	notesLostInRestart:    {"06 a restart does not lose in silence"},
	notesFolded:           {"06 a text is any bytes"},
	notesCapped:           {"06 many of one swap"},
	topicIsPattern:        {"06 each hears its topic only"},
	listenEndsWithContext: {"06 the listening outlives its context"},
	hearsAfterStop:        {"06 nothing after the stop"},
	hearsSeveralAtATime:   {"06 one at a time"},
	oneListenerATopic:     {"06 many listen to one topic", "06 those who come and go do not disturb others"},
	contextIgnored:        {"07 that ends while the system is frozen"},
	givenUpIsConflict:     {"07 that ends at any moment"},
	reservedForEver:       {"08 ends by itself"},
	reservedAfterUse:      {"08 ends when that one has swapped"},
	reservedIsListed:      {"08 of an empty register"},
	reservedBeforeRetry:   {"08 a second try of another is a success all the same"},
	ageOfCreation:         {"09 grows as time goes by"},
	ageWithoutClock:       {"09 without a clock it is negative"},
	clockStandsStill:      {"09 the clock that it is by is told"},
	forgetsInSilence:      {"10 a store that has forgotten says so until it is asked for its memory", "10 after a restart all is there, or the store says that it may have forgotten"},
	losesInSilence:        {"10 what is thrown away does not count as empty"},
	agesInRestart:         {"10 after a restart all is there, or the store says that it may have forgotten"},
	memoryStandsStill:     {"10 the memory of a store that may forget grows older"},
	memoryHasNoName:       {"10 the memory of a store that forgets nothing stays"},
	goroutineLeak:         {"11 goroutines and files after use and Close", "11 listening that comes and goes"},
	closeWaitsForEver:     {"11 one who listens may stop after Close"},
	spoiltIsFatal:         {"13 a register that somebody has spoilt hides no other"},
	keptTwice:             {"12 one keeps it at a time", "12 of many one keeps it"},
	keepEndsWithContext:   {"12 the keeping outlives its context"},
	unkeptIsPolled:        {"12 those who wait hear of the release"},
}
