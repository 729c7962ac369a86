//go:build linux || darwin

package cli

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
)

func TestTheSocketOfThePageIsItsUsersAlone(t *testing.T) {
	t.Chdir(t.TempDir()) // a socket's path may have 107 bytes, and TMPDIR may be long
	path := "s"
	for range 2 { // the second takes the place of a page that was killed
		l, err := listenPrivately(path)
		require.NoError(t, err)
		st, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, fs.FileMode(0o600), st.Mode().Perm())
		_, err = listenPrivately(path)
		assert.Equal(t, codeUnusable, codeOf(err), "it is in use: %v", err)
		l.SetUnlinkOnClose(false)
		require.NoError(t, l.Close())
	}
	_, err := listenPrivately(strings.Repeat("s", 108))
	assert.ErrorContains(t, err, "too long for a socket")
}

func TestAManualPageBeginsWithItsName(t *testing.T) {
	text := page(&cobra.Command{Use: "lock NAME", Short: "Hold a lock"})
	head, rest, _ := strings.Cut(text, "\n")
	assert.Equal(t, `.TH LOCK 1 "" turnwise turnwise`, head)
	assert.Contains(t, rest, `lock \- Hold a lock`)
}

func TestWhetherElectStandsAgain(t *testing.T) {
	unreachable, wrong := &failure{codeUnreachable, errors.New("cut off")}, &failure{codeUsage, errors.New("wrong")}
	for _, c := range []struct {
		restart                       string
		well, failed, unreached, told bool
	}{
		{"", false, false, false, false},
		{"never", false, false, false, false},
		{"on-failure", false, true, true, false},
		{"always", true, true, true, false},
	} {
		j := &job{restart: c.restart}
		assert.Equal(t, c.well, j.again(nil), "--restart=%s, the command ended well", c.restart)
		assert.Equal(t, c.failed, j.again(&ended{code: 3}), "--restart=%s, the command failed", c.restart)
		assert.Equal(t, c.unreached, j.again(unreachable), "--restart=%s, the service was out of reach", c.restart)
		assert.Equal(t, c.told, j.again(wrong), "--restart=%s, a wrong flag", c.restart)
		assert.True(t, j.again(fail(codeStopped, "%w", errOutranked)), "--restart=%s, a better candidate stands", c.restart)
	}
}

func TestAnIDMayBeShortButNotAmbiguous(t *testing.T) {
	line := []coord.Node{
		{ID: "turnwise/a//lock/694d71dd-1@42", Token: 1042}, {ID: "turnwise/a//lock/694d71ee-1@43", Token: 1043}, {ID: "turnwise/a//lock/7aaa-1@44", Token: 1044},
	}
	for id, want := range map[string]coord.Token{
		"turnwise/a//lock/694d71dd-1@42": 1042, "694d71dd": 1042, "694d71ee-1@43": 1043, "1044": 1044, "7aaa": 1044, "turnwise/a//lock/7": 1044,
	} {
		n, err := meant(line, "a", id)
		require.NoError(t, err, id)
		assert.Equal(t, want, n.Token, id)
	}
	for id, code := range map[string]int{"694d": codeUsage, "turnwise/a": codeUsage, "7aa": 1, "": 1, "104": 1, "none": 1} {
		_, err := meant(line, "a", id)
		assert.Equal(t, code, codeOf(err), "%q: %v", id, err)
	}
}

// The system names files in its errors as they are called, and a stranger may have chosen that.
func TestAnErrorIsSafeToShow(t *testing.T) {
	_, err := os.Open("there is no\x1b[31m\u202e" + `\x1b` + "\xff\u009b")
	require.Error(t, err)
	assert.Equal(t, `turnwise: open there is no\x1b[31m\u202e\x1b\xff\u009b: no such file or directory`, text(err))
	assert.Equal(t, `turnwise: a\b \\ "c"`, text(errors.New(`turnwise: a\b`+"\n"+`\\ "c"`)))
}
