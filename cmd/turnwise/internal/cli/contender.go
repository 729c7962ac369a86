package cli

import (
	"fmt"
	"strconv"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/asks"
	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/coord"
)

// contender is a contender in a line, as --json shows it.
type contender struct {
	*status.Holder
	Kind      string `json:"kind"`
	Mode      string `json:"mode"`
	Holds     bool   `json:"holds"`
	Value     string `json:"value,omitempty"`     // of a candidate
	Rank      int    `json:"rank,omitempty"`      // of a candidate
	Asks      string `json:"asks,omitempty"`      // what it asks those ahead to let go for
	Processes []int  `json:"processes,omitempty"` // on a directory: the processes that the kernel keeps the line for
	Memo      string `json:"memo,omitempty"`      // of the line; with who alone
}

func contenderOf(n coord.Node) contender {
	return contender{Holder: status.Of(n), Kind: n.Kind, Mode: status.Mode(n.Kind), Holds: n.Holds, Value: asks.Value(n), Rank: n.Rank, Asks: asks.Note(n)}
}

func (c contender) who() string {
	if c.Host == "" {
		return "?"
	}
	text := fmt.Sprintf("%s/%d", coord.Printable(c.Host), c.PID)
	if c.Label != "" {
		text += " " + coord.Printable(strconv.Quote(c.Label))
	}
	return text
}
