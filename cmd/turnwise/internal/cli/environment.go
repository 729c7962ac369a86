//go:build linux || darwin

package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/turnwise/turnwise/coord"
)

// holderVariable tells the program that it is the one in the background, and which process it holds for.
const holderVariable = "TURNWISE_HOLDER_FOR"

// variables tell a command of its hold: of what was asked, at which service, and with which token.
func variables(r *request, url string, token coord.Token) []string {
	return []string{
		"TURNWISE_NAME=" + r.name,
		"TURNWISE_MODE=" + r.mode,
		fmt.Sprintf("TURNWISE_TOKEN=%d", token),
		fmt.Sprintf("%s=%d", tokenVariable(r.name), token),
		"TURNWISE_BACKEND=" + url,
	}
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

// tokenVariable returns the name of the variable that has a line's token, even within another turnwise.
func tokenVariable(name string) string {
	return "TURNWISE_TOKEN_" + strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, name)
}
