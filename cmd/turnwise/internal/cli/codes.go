package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"syscall"

	"github.com/turnwise/turnwise/cmd/turnwise/internal/status"
	"github.com/turnwise/turnwise/coord"
)

// The exit codes; docs/tool.md says what each of them means.
const (
	codeStale        = 1 // publish only
	codeWrong        = 1 // audit only
	codeUsage        = 64
	codeUnreachable  = 69
	codeStopped      = 70
	codeLost         = 71
	codeUnusable     = 73
	codeBusy         = 75
	codeBroken       = 76
	codeDenied       = 77
	codeConfig       = 78
	codeNotRunnable  = 126
	codeNotFound     = 127
	codeSignal       = 128
	flockBusy        = 1
	flockNotRunnable = 69
)

// failure is an error with the exit code that it ends the program with.
type failure struct {
	code int
	error
}

func (f *failure) Unwrap() error { return f.error }

func fail(code int, format string, args ...any) error {
	return &failure{code, fmt.Errorf(format, args...)}
}

func usage(format string, args ...any) error { return fail(codeUsage, format, args...) }

// codeOf returns the exit code for an error. An error without a code comes from the parser of flags, so it is a matter of
// usage.
func codeOf(err error) int {
	var f *failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &f):
		return f.code
	}
	return codeUsage
}

// ended says that the command has ended by itself, with its own exit code.
type ended struct {
	code  int
	typed syscall.Signal // the typed signal that ended it; 0: none
	tell  bool           // nobody else has got it
}

func (e *ended) Error() string { return fmt.Sprintf("the command has ended with %d", e.code) }

// overlaps reports whether the command may have run, or may still run, when somebody else was let in.
func overlaps(err error) bool {
	var own *ended
	return codeOf(err) == codeLost && !errors.As(err, &own)
}

// errSilent is for an exit code that needs no message: that of a signal, or one that nobody wants explained.
var errSilent = errors.New("the exit code says it")

// silent reports whether the exit code alone is enough.
func silent(err error) bool {
	var own *ended
	return errors.As(err, &own) || errors.Is(err, errSilent)
}

// text returns an error as one line, with the program's name once, at the front. What the system says of a file names it as somebody may
// have chosen it: what is not to be seen of that is escaped, and what was escaped before stays as it is.
func text(err error) string {
	if err == nil {
		return ""
	}
	line := strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "turnwise: ", "")), " ")
	return "turnwise: " + strings.ReplaceAll(coord.Printable(line), `\\`, `\`)
}

// unopened gives an error of connecting its exit code.
func unopened(scheme string, err error) error {
	code := codeUnreachable
	switch {
	case errors.Is(err, coord.ErrInvalid):
		code = codeConfig
	case scheme == "file" && errors.Is(err, fs.ErrPermission):
		code = codeDenied
	case scheme == "file", errors.Is(err, coord.ErrTooWeak):
		code = codeUnusable
	case errors.Is(err, coord.ErrMissing):
		code = codeConfig
	case errors.Is(err, coord.ErrDenied):
		code = codeDenied
	}
	return &failure{code, err}
}

// taken says that somebody has the line.
func taken(code int, err error) error {
	var e *coord.Error
	if !errors.As(err, &e) {
		return &failure{code, err}
	}
	return fail(code, "%q is taken%s", e.Line, by(e.Blocker))
}

// by says who has a line, and as what unless he has it alone.
func by(b coord.Node) string {
	if b.Owner == (coord.Owner{}) {
		return ""
	}
	text := " by " + status.Describe(b)
	if mode := status.Mode(b.Kind); mode != "exclusive" {
		text += " (" + mode + ")"
	}
	return text + status.Since(b)
}

// refused gives an error of a call its exit code.
func refused(err error) error {
	code := codeUnreachable
	switch {
	case errors.Is(err, coord.ErrInvalidName), errors.Is(err, coord.ErrInvalid):
		code = codeUsage
	case errors.Is(err, coord.ErrRemoved):
		code = codeBroken
	case errors.Is(err, coord.ErrMissing):
		code = codeConfig
	case errors.Is(err, coord.ErrDenied):
		code = codeDenied
	case errors.Is(err, coord.ErrBusy):
		code = codeBusy
	}
	return &failure{code, err}
}

// unstarted gives an error of starting a command its exit code, as a shell does.
func unstarted(name string, err error) error {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, syscall.ENOENT):
		return fail(codeNotFound, "%s: command not found", coord.Printable(name))
	case errors.Is(err, syscall.EACCES):
		return fail(codeNotRunnable, "%s: it may not be executed", coord.Printable(name))
	}
	return fail(codeNotRunnable, "%s: it cannot be run: %w", coord.Printable(name), err)
}
