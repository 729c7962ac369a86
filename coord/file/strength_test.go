//go:build linux || darwin

package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/docs"
)

func TestTheTableOfEnginesHasOurRow(t *testing.T) {
	if row := docs.MissingInEngines("coord/file", register.New(&Store{}).Strength()); row != "" {
		t.Errorf("docs/engines.md lacks\n%s", row)
	}
}

func TestConnectRefusesBeforeItMakesTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	_, err := Connect(t.Context(), dir, WithClient(coord.Require(driver.Strength{Restart: driver.Remembers})))
	if !errors.Is(err, coord.ErrTooWeak) {
		t.Errorf("the client requires more than files without WithSync promise, and Connect returns %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
	c, err := Connect(t.Context(), dir, WithSync(), WithClient(coord.Require(driver.Strength{
		Order: driver.FirstCome, Death: driver.ByKernel, Restart: driver.Remembers})))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
