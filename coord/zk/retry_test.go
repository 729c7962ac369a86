package zk

import (
	"errors"
	"fmt"
	"testing"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

func TestWhichErrorsPass(t *testing.T) {
	for _, err := range []error{
		gozk.ErrConnectionClosed, gozk.ErrNoServer, gozk.ErrSessionMoved, errors.New("write tcp: broken pipe"),
		errors.New("unknown error: -4"), wire.ErrForeign,
	} {
		require.True(t, passing(err), err)
	}
	for _, err := range []error{
		nil, gozk.ErrNoNode, gozk.ErrNoAuth, gozk.ErrNodeExists, gozk.ErrBadArguments, errors.New("unknown error: -125"),
		errors.New("unknown error: -6"), // unimplemented

		driver.ErrSessionEnded, fmt.Errorf("joining: %w", gozk.ErrNoNode),
	} {
		require.False(t, passing(err), err)
	}
}
