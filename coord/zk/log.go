package zk

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	gozk "github.com/go-zookeeper/zk"
)

// libraryLogger has what the client library says logged at debug level, if anybody wants to know.
func (c *config) libraryLogger() (l gozk.Logger, chatty bool) {
	return logger{c.log}, c.log.Enabled(context.Background(), slog.LevelDebug)
}

type logger struct{ to *slog.Logger }

func (l logger) Printf(format string, args ...any) {
	if l.to.Enabled(context.Background(), slog.LevelDebug) {
		l.to.Debug("zookeeper client: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}
