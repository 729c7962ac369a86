package file

import (
	"log/slog"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

// pkg begins the errors of this package.
const pkg storekit.Package = "file"

// Option sets up a store. A nil Option changes nothing.
type Option func(*config)

type config struct {
	storekit.Settings // the TTL is of no use: the kernel knows who lives
	sync              bool
	group             bool
	anyFS             bool
}

// WithSync has each swap written to the disk before it is answered, so that not even a power cut takes one back. Each swap
// then waits for the disk. All processes that use a directory must agree on it: the directory remembers, and a process that
// does not agree is refused.
func WithSync() Option { return func(c *config) { c.sync = true } }

// WithGroup lets other users of the directory's group take part, if this process is the one that makes the directory.
// Without it the directory is for its user alone. Processes that find the directory need not say it again: they see it from
// the directory's rights.
func WithGroup() Option { return func(c *config) { c.group = true } }

// WithAnyFileSystem accepts a file system that would be refused because several machines may share it, and its locks may not
// reach from one to the other, or because it lacks something. Use it if you know that only one machine uses the directory,
// and that flock(2), rename(2) and named pipes work there as they do on a disk.
func WithAnyFileSystem() Option { return func(c *config) { c.anyFS = true } }

// WithLogger sets where the store logs that something is wrong with the directory. Without it nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.Log = l } }

// WithClient passes options on to the coord.Client that [Connect] makes. [Open] refuses it.
func WithClient(opts ...coord.Option) Option { return func(c *config) { c.AddClient(opts) } }

func configure(way storekit.Way, opts []Option) (c config, err error) {
	err = storekit.Configure(pkg, way, &c, &c.Settings, opts)
	return c, err
}

// strength is what files promise.
func (c *config) strength() driver.Strength {
	if c.sync {
		return driver.Strength{Restart: driver.Remembers, Failover: driver.NoFailover, Tokens: driver.RiseForEver, WakeUp: driver.Told}
	}
	return driver.Strength{Restart: driver.ForgetsOpenly, Failover: driver.NoFailover, WakeUp: driver.Told}
}
