// Package docs is what is written about turnwise. Here is only what keeps it true.
package docs

import (
	_ "embed"
	"strings"

	"github.com/turnwise/turnwise/coord/driver"
)

//go:embed engines.md
var engines string

// MissingInEngines returns the row of the table in engines.md that a driver's strength makes, or "" if the table has it. It is for
// the tests of drivers, which may be in modules of their own.
func MissingInEngines(name string, s driver.Strength) string {
	row := "| `" + name + "`"
	for _, says := range s.Aspects() {
		row += " | " + says
	}
	row += " |"
	if strings.Contains(engines, "\n"+row+"\n") {
		return ""
	}
	return row
}
