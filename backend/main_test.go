package backend

import (
	"os"
	"testing"

	"github.com/turnwise/turnwise/verify/servers"
)

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }
