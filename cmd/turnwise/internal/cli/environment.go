//go:build linux || darwin

package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// holderVariable tells the program that it is the one in the background, and which process it holds for.
const holderVariable = "TURNWISE_HOLDER_FOR"

// variables tell a command of its hold: of what was asked, at which service, and with which token. TURNWISE_TOKEN is for
// people's programs; turnwise itself goes by TURNWISE_HOLDS.
func (w *waiter) variables(hold turn) []string {
	ours := []string{
		"TURNWISE_NAME=" + w.name,
		"TURNWISE_MODE=" + w.mode,
		fmt.Sprintf("TURNWISE_TOKEN=%d", hold.Token()),
		holdsVariable + "=" + holding(w.heldBy(hold), w.several),
	}
	ours = append(ours, w.extra...)
	return append(ours, w.service.forCommand(w.to, w.url)...)
}

// environment returns a command's environment with variables of ours. It has no variable twice, as could happen within
// another turnwise: most programs find the first one, and shells the last.
func environment(ours []string) []string {
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(ours, func(o string) bool { return strings.HasPrefix(o, name+"=") })
	})
	return append(inherited, ours...)
}
