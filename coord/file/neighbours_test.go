//go:build linux || darwin

package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/internal/storecheck"
)

// outside is a file that nobody who only uses the locks may touch.
func outside(t *testing.T) string {
	name := filepath.Join(t.TempDir(), "precious")
	require.NoError(t, os.WriteFile(name, []byte("precious"), 0o600))
	return name
}

func untouched(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	assert.NoError(t, err, "it was removed")
	assert.Equal(t, "precious", string(text))
	st, err := os.Stat(name)
	if assert.NoError(t, err) {
		assert.Equal(t, os.FileMode(0o600), st.Mode().Perm())
	}
}

// within ends a test that hangs where it must not.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s hangs", what)
	}
}

func TestAMessageThatNamesAFileElsewhereRemovesNothing(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	stop, heard := listen(t, s, "t")
	defer stop()
	victims := map[string]string{outside(t): "", filepath.Join(dir, layoutFile): ""}
	pipes, err := filepath.Glob(filepath.Join(dir, notesDir, "t", "[0-9]*"))
	require.NoError(t, err)
	require.Len(t, pipes, 1)
	pipe, err := os.OpenFile(pipes[0], os.O_WRONLY, 0)
	require.NoError(t, err)
	defer pipe.Close()
	for victim := range victims {
		name, err := filepath.Rel(filepath.Join(dir, notesDir, "t"), victim)
		require.NoError(t, err)
		_, err = pipe.Write(message(messageAside, []byte(name)))
		require.NoError(t, err)
		assert.Empty(t, <-heard, "it is a reason to look, and nothing else")
		_, err = os.Stat(victim)
		assert.NoError(t, err)
	}
}

func TestADirectoryOfAnotherBootLeadsNowhereElse(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir)
	require.NoError(t, err)
	s.Close()
	victim := outside(t)
	link := filepath.Join(dir, notesDir, "t")
	require.NoError(t, os.Symlink(filepath.Dir(victim), link))
	shard := filepath.Join(dir, registersDir, "07")
	require.NoError(t, os.Remove(shard))
	require.NoError(t, os.Symlink(filepath.Dir(victim), shard))
	require.NoError(t, os.Mkdir(filepath.Join(dir, keptDir, "k"), 0o700))
	inKept := filepath.Join(dir, keptDir, "k", "precious")
	require.NoError(t, os.WriteFile(inKept, []byte("precious"), 0o600))
	anotherBoot(t, dir)
	s, err = Open(t.Context(), dir)
	if err == nil {
		s.Close()
	}
	untouched(t, victim)
	untouched(t, inKept)
}

// anotherBoot makes the layout one from before the machine was started.
func anotherBoot(t *testing.T, dir string) {
	layout := filepath.Join(dir, layoutFile)
	text, err := os.ReadFile(layout)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(layout, []byte(strings.Replace(string(text), bootID(), "another", 1)), 0o600))
}

func TestATopicThatIsALinkMakesNothingElsewhere(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	elsewhere := t.TempDir()
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, notesDir, "t")))
	_, err := s.Listen(t.Context(), "t", func([]byte) {})
	assert.ErrorIs(t, err, driver.ErrDenied)
	put(t, s, "k", "x", register.Note{Topic: "t", Text: []byte("x")})
	names, err := os.ReadDir(elsewhere)
	require.NoError(t, err)
	assert.Empty(t, names)
}

// topicOf makes the directory of a topic, with something in it, so that it is not swept away.
func topicOf(t *testing.T, dir string) string {
	topic := filepath.Join(dir, notesDir, "t")
	soon(t, "the topic is there", func() bool {
		_ = os.Mkdir(topic, 0o700)
		return os.WriteFile(filepath.Join(topic, "foreign file"), nil, 0o600) == nil
	})
	return topic
}

// What a swap, a note and a session write to could be a link to a file of ours.
func TestNothingIsWrittenThroughALink(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, "k", "x")
	victim := outside(t)
	soon(t, "the link is refused", func() bool {
		_ = os.Link(victim, filepath.Join(dir, keptDir, "key"))
		release, err := s.Keep(t.Context(), "key")
		if err == nil { // whoever opens a directory sweeps it, and has just taken the link away
			release()
			return false
		}
		return errors.Is(err, driver.ErrDenied)
	})
	require.NoError(t, os.Link(victim, filepath.Join(topicOf(t, dir), "4711-3c")))
	put(t, s, "k", "y", register.Note{Topic: "t", Text: []byte("x")})
	ofSpare := filepath.Join(filepath.Dir(path(dir, "k")), spareFile)
	_ = os.Remove(ofSpare)
	require.NoError(t, os.Link(victim, ofSpare))
	put(t, s, "k", "z")
	untouched(t, victim)
}

func TestAPipeInThePlaceOfAFileHoldsUpNobody(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	before := put(t, s, "k", "x")
	fifo := func(name string) {
		_ = os.Remove(name)
		require.NoError(t, unix.Mkfifo(name, 0o600))
	}
	within(t, "a swap with a pipe as the spare file", func() {
		fifo(filepath.Join(filepath.Dir(path(dir, "k")), spareFile))
		put(t, s, "k", "y")
	})
	within(t, "what reads a register that is a pipe", func() {
		fifo(path(dir, "k"))
		_, err := s.Read(t.Context(), "k")
		assert.ErrorIs(t, err, driver.ErrDenied)
		_, err = s.Swap(t.Context(), register.Swap{Key: "k", Old: before.Version, Next: register.NewVersion()})
		assert.ErrorIs(t, err, driver.ErrDenied)
	})
	within(t, "what asks for a key that is a pipe", func() {
		fifo(filepath.Join(dir, keptDir, "key"))
		_, err := s.Keep(t.Context(), "key")
		assert.ErrorIs(t, err, driver.ErrDenied)
		assert.ErrorIs(t, s.Unkept(t.Context(), "key"), driver.ErrDenied)
	})
	within(t, "what opens a directory whose layout is a pipe", func() {
		fifo(filepath.Join(dir, layoutFile))
		_, err := Open(context.Background(), dir)
		assert.ErrorIs(t, err, driver.ErrDenied)
	})
}

func TestAHugeFileIsNotReadWhole(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	item := put(t, s, "k", "x")
	_, err := s.Swap(t.Context(), register.Swap{Key: "k", Old: item.Version, Next: register.NewVersion(), Value: make([]byte, maxValue+1)})
	assert.ErrorIs(t, err, register.ErrTooLarge)
	require.NoError(t, os.Truncate(path(dir, "k"), 3<<30))
	f, err := os.OpenFile(path(dir, "k"), os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("3000000000"), int64(headLength-11))
	require.NoError(t, errors.Join(err, f.Close()))
	_, err = s.Read(t.Context(), "k")
	assert.ErrorIs(t, err, driver.ErrDenied)

	layout := filepath.Join(dir, layoutFile)
	require.NoError(t, os.Truncate(layout, 3<<30))
	storecheck.Bounded(t, 500, func() {
		other, err := Open(t.Context(), dir) // what it begins with is a layout
		if err == nil {
			other.Close()
		}
	})
}

func TestAStrangersLockOnADirectoryThatAllMayOpenKeepsNobodyOut(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	stranger, err := os.Open(dir)
	require.NoError(t, err)
	defer stranger.Close()
	require.NoError(t, flock(stranger, unix.LOCK_EX))
	put(t, open(t, dir), "k", "x")
}

// Nor does it keep from being cleared what a power cut has left. In a directory that only its owner may open, it does.
func TestAStrangersLockKeepsNoDamageAfterARestart(t *testing.T) {
	for mode, cleared := range map[os.FileMode]bool{0o755: true, 0o700: false} {
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, mode))
		s := open(t, dir)
		put(t, s, "k", strings.Repeat("x", 5000))
		require.NoError(t, s.Close())
		require.NoError(t, os.Truncate(path(dir, "k"), 3000))
		anotherBoot(t, dir)
		stranger, err := os.Open(dir)
		require.NoError(t, err)
		defer stranger.Close()
		require.NoError(t, flock(stranger, unix.LOCK_SH))
		_, err = open(t, dir).Read(t.Context(), "k")
		if cleared {
			assert.NoError(t, err)
		} else {
			assert.ErrorIs(t, err, driver.ErrDenied)
		}
	}
}

// Whoever may rename what is in the directory puts another kept in the place of the first, and then all who hold seem dead.
func TestADirectoryToWhichOthersMayWriteIsRefused(t *testing.T) {
	for _, mode := range []uint32{0o730, 0o2730, 0o720, 0o702, 0o3770, 0o1770} {
		dir := t.TempDir()
		require.NoError(t, unix.Chmod(dir, mode))
		_, err := Open(t.Context(), dir)
		assert.ErrorIs(t, err, driver.ErrDenied, "%o", mode)
		left, err := os.ReadDir(dir)
		assert.NoError(t, err)
		assert.Empty(t, left, "%o", mode)
	}
}

// Whoever may open what is in it could lock it, and all would stand still.
func TestADirectoryWithinThatOthersMayOpenIsRefused(t *testing.T) {
	for _, d := range []struct {
		top, within uint32
		refused     bool
	}{
		{0o755, 0o755, true}, {0o711, 0o704, true}, {0o750, 0o750, true}, {0o2775, 0o2775, true},
		{0o755, 0o700, false}, {0o700, 0o755, false}, {0o2770, 0o2775, false}, {0o2775, 0o2770, false},
	} {
		for _, name := range []string{registersDir, notesDir, keptDir} {
			dir := t.TempDir()
			require.NoError(t, unix.Chmod(dir, d.top))
			require.NoError(t, open(t, dir).Close())
			require.NoError(t, unix.Chmod(filepath.Join(dir, name), d.within))
			s, err := Open(t.Context(), dir)
			if d.refused {
				assert.ErrorIs(t, err, driver.ErrDenied, "%s: %o in %o", name, d.within, d.top)
			} else if assert.NoError(t, err, "%s: %o in %o", name, d.within, d.top) {
				s.Close()
			}
		}
	}
}

func TestALinkOfAStrangersIsNotFollowedToTheDirectory(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	in := t.TempDir()
	require.NoError(t, os.Mkdir(in+"/mine", 0o700))
	require.NoError(t, os.Symlink(in+"/mine", in+"/link"))
	open(t, in+"/link") // our own
	require.NoError(t, os.Lchown(in+"/link", 12346, 12346))
	_, err := Open(t.Context(), in+"/link")
	assert.ErrorIs(t, err, driver.ErrDenied)
}

func TestAFileOfAStrangersIsNotUsed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	dir := t.TempDir()
	s := open(t, dir)
	require.NoError(t, os.Chown(topicOf(t, dir), 12346, 12346))
	_, err := s.Listen(t.Context(), "t", func([]byte) {})
	assert.ErrorIs(t, err, driver.ErrDenied)
	require.NoError(t, os.Chown(filepath.Join(dir, layoutFile), 12346, 12346))
	_, err = Open(t.Context(), dir)
	assert.ErrorIs(t, err, driver.ErrDenied)
}

// A visit of root must not leave what the owner cannot open.
func TestRootsVisitLocksTheOwnerOutOfNothing(t *testing.T) {
	common := commonDir(t)
	for what, role := range map[string]string{"of one user": "count to 50", "of a group": "make a group"} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(common, strings.ReplaceAll(what, " ", "-"))
			run := func(role string) {
				n := &numbers{times: make(map[int]int)}
				cmd := asUser(t, childProcess(role, dir), 12345, 12345)
				cmd.Path = common + "/program"
				n.run(t, cmd)()
				assert.Len(t, n.times, 50, "what the owner counts")
			}
			run(role)
			s := open(t, dir) // root
			put(t, s, "counter", "50")
			put(t, s, "other", "x")
			stop, _ := listen(t, s, "t")
			defer stop()
			release, err := s.Keep(t.Context(), "key")
			require.NoError(t, err)
			defer release()
			require.NoError(t, s.place.Load().disown()) // a new layout
			require.NoError(t, filepath.Walk(dir, func(name string, info os.FileInfo, err error) error {
				var st unix.Stat_t
				require.NoError(t, errors.Join(err, unix.Lstat(name, &st)))
				assert.Equal(t, uint32(12345), st.Uid, name)
				assert.Equal(t, uint32(12345), st.Gid, name)
				return nil
			}))
			run("count to 50")
		})
	}
}
