package memcached

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/turnwise/turnwise/coord/driver"
)

func TestWhichErrorsEndAConnection(t *testing.T) {
	if err := fmt.Errorf("swap: %w", &cut{io.EOF}); !isCut(err) {
		t.Errorf("%v does not", err)
	}
	for _, err := range []error{&cut{fmt.Errorf("%w: no memcached", driver.ErrDenied)}, fmt.Errorf("%w: a password", driver.ErrDenied), errors.New("other")} {
		if isCut(err) {
			t.Errorf("%v does", err)
		}
	}
}
