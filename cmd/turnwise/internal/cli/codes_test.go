package cli

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/turnwise/turnwise/coord"
)

// Scripts tell by the code what they can do about it.
func TestEachKindOfErrorHasACodeOfItsOwn(t *testing.T) {
	for cause, code := range map[error]int{
		coord.ErrInvalid:       64,
		coord.ErrInvalidName:   64,
		coord.ErrBusy:          75,
		coord.ErrRemoved:       76,
		coord.ErrDenied:        77,
		coord.ErrMissing:       78,
		errors.New("anything"): 69,
	} {
		err := refused(fmt.Errorf("lock: %w", cause))
		assert.Equal(t, code, codeOf(err), "%v", cause)
		assert.ErrorIs(t, err, cause)
		assert.EqualError(t, err, "lock: "+cause.Error())
	}
	for cause, code := range map[error]int{
		exec.ErrNotFound: 127,
		syscall.ENOENT:   127,
		syscall.EACCES:   126,
		syscall.ENOEXEC:  126,
	} {
		assert.Equal(t, code, codeOf(unstarted("backup", fmt.Errorf("start: %w", cause))), "%v", cause)
	}
}
