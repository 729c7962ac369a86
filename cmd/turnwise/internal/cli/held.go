package cli

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/turnwise/turnwise/coord"
)

// holdsVariable has all holds that this program runs within, the outermost first, as words that held.word writes.
const holdsVariable = "TURNWISE_HOLDS"

// maxHolds bounds the variable: the system takes no program whose environment is too large, and a shell may hold one line
// after another for months. The oldest are forgotten.
const maxHolds = 16 << 10

// held is a hold that this program runs within. Only all three together say which: names are not the same everywhere, and
// the first token of one line is that of another.
type held struct {
	line    string
	service string // backend.Service.ID
	token   coord.Token
}

// word writes a hold so that no two are written alike, whatever the line is called.
func (h held) word() string {
	return "line=" + url.QueryEscape(h.line) + "&service=" + url.QueryEscape(h.service) + fmt.Sprintf("&token=%d", h.token)
}

// heldAround returns the holds that this program runs within at a service, the innermost last. What is not one of ours
// counts for nothing.
func heldAround(service string) (holds []held) {
	for _, h := range allHeld() {
		if h.service == service {
			holds = append(holds, h)
		}
	}
	return holds
}

func allHeld() (holds []held) {
	for _, word := range strings.Fields(os.Getenv(holdsVariable)) {
		v, err := url.ParseQuery(word)
		if err != nil {
			continue
		}
		token, err := strconv.ParseInt(v.Get("token"), 10, 64)
		if h := (held{v.Get("line"), v.Get("service"), coord.Token(token)}); err == nil && token > 0 && h.word() == word {
			holds = append(holds, h)
		}
	}
	return holds
}

// holding returns the variable's value with further holds. If nobody can hold a line twice, an older hold of it is over.
func holding(inner []held, several bool) string {
	words := make([]string, len(inner))
	for i, h := range inner {
		words[i] = h.word()
	}
	text := strings.Join(words, " ")
	all := allHeld()
	for i := len(all) - 1; i >= 0; i-- {
		h := all[i]
		if slices.ContainsFunc(inner, func(in held) bool {
			return h.line == in.line && h.service == in.service && (!several || h.token == in.token)
		}) {
			continue
		}
		if len(text)+len(h.word()) > maxHolds {
			break
		}
		text = h.word() + " " + text
	}
	return text
}
