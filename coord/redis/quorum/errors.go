package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// pkg begins the errors of this package, but for those about options and addresses, which are coord/redis's.
const pkg storekit.Package = "redis/quorum"

// What may be wrong with one of them.
var (
	errNoVote = errors.New("it has forgotten its votes, and does not vote until it is healed")
	errBusy   = errors.New("it does not answer")
	errMoved  = errors.New("the group has another roster by now")
	errAnew   = errors.New("the group was founded anew meanwhile")

	errBegun    = errors.New("its group is about to be founded, or never was: if that lasts, empty all servers that are named (FLUSHALL)")
	errNotEmpty = errors.New("no majority votes, and a group is founded on empty servers only: this one has forgotten its votes, but has " +
		"registers of before; stop all processes and empty all of the servers (FLUSHALL)")
)

// What may come of a round.
var (
	errRefused = errors.New("another proposer stands in the way")
	errForeign = storekit.NotOurs("something else stands under its key: use another root")
)

// What may be found out about a swap whose round came to nothing.
var (
	errApplied = errors.New("it was applied, and swapped again")
	errOpen    = errors.New("it was swapped again and again meanwhile, and it is open whether it was applied")
)

// joinErrors joins errors in one line. A class that says that trying again would not help counts only if all have it: the others may
// pass, and leave a majority.
func joinErrors(all []error) error {
	var texts []string
	for _, err := range all {
		texts = append(texts, err.Error())
	}
	text := strings.Join(texts, "; ")
	for _, class := range []error{driver.ErrDenied, driver.ErrMissing} {
		if len(all) > 0 && !slices.ContainsFunc(all, func(err error) bool { return !errors.Is(err, class) }) {
			return fmt.Errorf("%w: %s", class, text)
		}
	}
	return errors.New(text)
}
