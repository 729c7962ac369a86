package storekit

import "context"

const (
	// maxTries bounds how often something that was certainly not done is tried again at once.
	maxTries = 20

	// maxCuts is how often a connection may be found to be cut before it is the server's fault.
	maxCuts = 2
)

// Change tries a change, and again at once as long as undone says that it was certainly not done, and is worth another try.
// After any other error its outcome may be open: that is the caller's to find out.
func Change(try func() error, undone func(error) bool) (err error) {
	for range maxTries {
		if err = try(); err != errGoneAgain && (err == nil || !undone(err)) {
			break
		}
	}
	return err
}

// Query tries what changes nothing. Beside what Change tries again, it does so when the connection had been cut, twice.
func Query(ctx context.Context, try func() error, undone, cut func(error) bool) error {
	cuts := 0
	return Change(try, func(err error) bool {
		if ctx.Err() != nil {
			return false
		}
		if cut(err) {
			cuts++
			return cuts <= maxCuts
		}
		return undone(err)
	})
}

// Never is an undone or a cut for what never happens: where the server says nothing that is worth another try at once.
func Never(error) bool { return false }
