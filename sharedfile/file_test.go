package sharedfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/mem"
	"github.com/turnwise/turnwise/fence"
	"github.com/turnwise/turnwise/recipes/mutex"
	"github.com/turnwise/turnwise/recipes/rwlock"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func publish(t *testing.T, f *File, token coord.Token, s string) {
	t.Helper()
	require.NoError(t, f.Publish(t.Context(), fence.Stamp{Token: token}, text(s)))
}

func content(t *testing.T, f *File) (s string) {
	t.Helper()
	require.NoError(t, f.Read(t.Context(), func(r io.Reader) error {
		b, err := io.ReadAll(r)
		s = string(b)
		return err
	}))
	return s
}

func open(t *testing.T, opts ...Option) *File {
	t.Helper()
	f, err := Open(nil, filepath.Join(t.TempDir(), "file"), opts...)
	require.NoError(t, err)
	return f
}

// entries are the names in the directory of versions, without their zeros.
func entries(t *testing.T, f *File) (all []string) {
	t.Helper()
	dir, err := os.ReadDir(f.dir)
	require.NoError(t, err)
	for _, e := range dir {
		n, ours := parse(e.Name())
		if !ours {
			all = append(all, e.Name())
			continue
		}
		s := fmt.Sprintf("%d.%d.%d", n.stamp.Epoch, n.stamp.Token, n.n)
		switch n.kind {
		case draft:
			s = fmt.Sprintf("%d.%d.draft", n.stamp.Epoch, n.stamp.Token)
		case empty:
			s += ".none"
		}
		all = append(all, s)
	}
	return all
}

func TestAReaderGetsTheNewestVersion(t *testing.T) {
	service := mem.New()
	defer service.Close()
	client := service.Client()
	path := filepath.Join(t.TempDir(), "file")
	for name, lock := range map[string]Lock{"mutex": mutex.New(client, "a"), "rwlock": rwlock.New(client, "b")} {
		t.Run(name, func(t *testing.T) {
			f, err := Open(lock, path+name)
			require.NoError(t, err)
			err = f.Read(t.Context(), func(io.Reader) error { t.Error("there is nothing to read"); return nil })
			assert.ErrorIs(t, err, fs.ErrNotExist)
			assert.NoFileExists(t, f.Path())
			for _, s := range []string{"first", "", "a longer one"} {
				require.NoError(t, f.Write(t.Context(), text(s)))
				assert.Equal(t, s, content(t, f))
				plain, err := os.ReadFile(f.Path())
				require.NoError(t, err)
				assert.Equal(t, s, string(plain))
			}
			require.NoError(t, f.Write(t.Context(), func(w io.Writer) error { return text(content(t, f) + ", changed")(w) }))
			assert.Equal(t, "a longer one, changed", content(t, f))
			require.NoError(t, f.Read(t.Context(), func(r io.Reader) error {
				_, err := r.(io.Seeker).Seek(-7, io.SeekEnd)
				require.NoError(t, err)
				b, err := io.ReadAll(r)
				assert.Equal(t, "changed", string(b))
				return err
			}))
		})
	}
}

func TestAWriteThatFailsLeavesTheFileAsItWas(t *testing.T) {
	f := open(t)
	publish(t, f, 1, "first")
	own := errors.New("no more prices")
	err := f.Publish(t.Context(), fence.Stamp{Token: 2}, func(w io.Writer) error { _ = text("half")(w); return own })
	assert.Equal(t, own, err, "as it is")
	ctx, cancel := context.WithCancel(t.Context())
	err = f.Publish(ctx, fence.Stamp{Token: 3}, func(w io.Writer) error {
		_ = text("half")(w)
		cancel()
		b := bufio.NewWriter(w)
		_, _ = b.WriteString("the other half")
		_ = b.Flush() // it does not look
		return nil
	})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Panics(t, func() { _ = f.Publish(t.Context(), fence.Stamp{Token: 4}, func(io.Writer) error { panic("oops") }) })
	assert.ErrorIs(t, f.Publish(t.Context(), fence.Stamp{Token: 5}, nil), coord.ErrInvalid)
	assert.ErrorIs(t, f.Publish(ctx, fence.Stamp{Token: 5}, text("x")), context.Canceled)
	assert.ErrorIs(t, f.Publish(t.Context(), fence.Stamp{}, text("x")), coord.ErrInvalid)
	assert.ErrorIs(t, f.Write(t.Context(), text("x")), coord.ErrInvalid, "there is no lock")
	assert.Equal(t, "first", content(t, f))
	publish(t, f, 5, "second")
	assert.Equal(t, "second", content(t, f))
	assert.Equal(t, []string{"0.1.1", "0.5.1"}, entries(t, f))
}

// The first writer is stopped before, within and after what it writes.
func TestAWriterThatLostTheLockIsNotRead(t *testing.T) {
	f := open(t)
	publish(t, f, 1, "first")
	err := f.Publish(t.Context(), fence.Stamp{Token: 2}, func(w io.Writer) error {
		publish(t, f, 3, "newer")
		return text("stale")(w)
	})
	assert.ErrorIs(t, err, coord.ErrStale)
	assert.ErrorContains(t, err, "file: token is stale: 2, and 3 has been seen")
	assert.Equal(t, "newer", content(t, f))
	assert.ErrorIs(t, f.Publish(t.Context(), fence.Stamp{Token: 2}, func(io.Writer) error {
		t.Error("it is asked to write in vain")
		return nil
	}), coord.ErrStale)

	// It is stale as soon as a newer one has begun, even if that has not written yet.
	err = f.Publish(t.Context(), fence.Stamp{Token: 5}, func(w io.Writer) error {
		assert.ErrorIs(t, f.Publish(t.Context(), fence.Stamp{Token: 4}, text("stale")), coord.ErrStale)
		assert.Equal(t, "newer", content(t, f))
		require.NoError(t, os.WriteFile(f.at(name{stamp: fence.Stamp{Token: 4}, n: 1}), []byte("linked past all checks"), 0o444))
		assert.Equal(t, "newer", content(t, f))
		return errors.New("and does not write after all")
	})
	assert.EqualError(t, err, "and does not write after all")
	assert.Equal(t, "newer", content(t, f))
}

func TestNothingIsReadUnlessANewWriterWritesIt(t *testing.T) {
	f := open(t)
	assert.Error(t, f.Publish(t.Context(), fence.Stamp{Token: 9}, func(io.Writer) error { return io.ErrUnexpectedEOF }))
	require.NoError(t, os.WriteFile(f.at(name{stamp: fence.Stamp{Token: 8}, n: 1}), []byte("stale"), 0o444))
	err := f.Read(t.Context(), func(io.Reader) error { return nil })
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, "file: nobody has written it yet: file does not exist")
	assert.Error(t, f.Publish(t.Context(), fence.Stamp{Token: 10}, func(io.Writer) error { return io.ErrUnexpectedEOF }))
	assert.ErrorIs(t, f.Read(t.Context(), func(io.Reader) error { return nil }), fs.ErrNotExist)
	publish(t, f, 11, "first")
	assert.Equal(t, "first", content(t, f))
	assert.Equal(t, []string{"0.11.1", "0.8.1"}, sortedStrings(entries(t, f)))
}

func sortedStrings(s []string) []string { slices.Sort(s); return s }

func TestAHoldMayPublishAgainAndAgain(t *testing.T) {
	f := open(t, Keep(2))
	for i := range 12 {
		publish(t, f, 7, fmt.Sprint(i))
	}
	assert.Equal(t, "11", content(t, f))
	assert.Equal(t, []string{"0.7.11", "0.7.12"}, entries(t, f))
	require.NoError(t, os.WriteFile(f.at(name{stamp: fence.Stamp{Token: 7}, n: 999_999}), []byte("six digits"), 0o444))
	publish(t, f, 7, "seven digits")
	assert.Equal(t, "seven digits", content(t, f))
	assert.Equal(t, []string{"0.7.1000000", "0.7.999999"}, sortedStrings(entries(t, f)))
}

func TestTheEpochGoesBeforeTheToken(t *testing.T) {
	service := mem.New()
	defer service.Close()
	lock := mutex.New(service.Client(), "file")
	path := filepath.Join(t.TempDir(), "file")
	f, err := Open(lock, path)
	require.NoError(t, err)
	require.NoError(t, f.Publish(t.Context(), fence.Stamp{Token: math.MaxInt64}, text("on the old engine")))
	assert.ErrorIs(t, f.Write(t.Context(), text("on the new one")), coord.ErrStale)
	f, err = Open(lock, path, Epoch(math.MaxUint32))
	require.NoError(t, err)
	require.NoError(t, f.Write(t.Context(), text("on the new one")))
	assert.Equal(t, "on the new one", content(t, f))
	assert.ErrorIs(t, f.Publish(t.Context(), fence.Stamp{Token: math.MaxInt64}, text("late")), coord.ErrStale)
}

func TestALossOfTheLockIsTold(t *testing.T) {
	service := mem.New()
	defer service.Close()
	client := service.Client()
	f, err := Open(mutex.New(client, "file"), filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	err = f.Write(t.Context(), func(w io.Writer) error {
		service.Expire(client)
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
			if err := text("x")(w); err != nil {
				return err
			}
		}
		return nil
	})
	assert.ErrorIs(t, err, coord.ErrLost)
	assert.ErrorIs(t, f.Read(t.Context(), func(io.Reader) error { return nil }), fs.ErrNotExist)
}

func TestVersionsAreKept(t *testing.T) {
	f := open(t)
	for token := range coord.Token(6) {
		publish(t, f, token+1, fmt.Sprint(token+1))
	}
	assert.Equal(t, []string{"0.4.1", "0.5.1", "0.6.1"}, entries(t, f))
	for _, n := range []int{0, -1} {
		_, err := Open(nil, f.path, Keep(n))
		assert.ErrorIs(t, err, coord.ErrInvalid)
	}
	f, err := Open(nil, f.path, Keep(1))
	require.NoError(t, err)
	publish(t, f, 7, "7")
	assert.Equal(t, []string{"0.7.1"}, entries(t, f))
	assert.ErrorIs(t, f.Publish(t.Context(), fence.Stamp{Token: 6}, text("stale")), coord.ErrStale, "its version is gone, and it knows all the same")
	assert.Error(t, f.Publish(t.Context(), fence.Stamp{Token: 8}, func(io.Writer) error { return io.ErrUnexpectedEOF }))
	assert.ErrorIs(t, f.Publish(t.Context(), fence.Stamp{Token: 7}, text("stale")), coord.ErrStale)
	assert.Equal(t, "7", content(t, f))
}

func TestAVersionStaysWhileItIsRead(t *testing.T) {
	f := open(t, Keep(1))
	publish(t, f, 1, "first")
	require.NoError(t, f.Read(t.Context(), func(r io.Reader) error {
		for token := range coord.Token(3) {
			publish(t, f, token+2, "newer")
		}
		assert.Contains(t, entries(t, f), "0.1.1")
		assert.NotContains(t, entries(t, f), "0.2.1")
		b, err := io.ReadAll(r)
		assert.Equal(t, "first", string(b))
		return err
	}))
	publish(t, f, 5, "newest")
	assert.Equal(t, []string{"0.5.1"}, entries(t, f))
}

// Whoever may read can lock each version, or the directory, for as long as he likes.
func TestWhoKeepsEverythingLockedDoesNotFillTheDisk(t *testing.T) {
	for what, lockFiles := range map[string]bool{"versions": true, "the directory": false} {
		t.Run(what, func(t *testing.T) {
			f := open(t)
			lock := func(path string) {
				v, err := os.Open(path)
				require.NoError(t, err)
				t.Cleanup(func() { v.Close() })
				if locked, known := lockShared(v); !known {
					t.Skip("files cannot be locked here")
				} else if !locked {
					t.Fatal(path, "cannot be locked")
				}
			}
			publish(t, f, 1, "first")
			require.NoError(t, f.Read(t.Context(), func(r io.Reader) error {
				if !lockFiles {
					lock(f.dir)
				}
				for token := range coord.Token(60) {
					publish(t, f, token+2, fmt.Sprint(token+2))
					if lockFiles {
						lock(f.at(name{stamp: fence.Stamp{Token: token + 2}, n: 1, kind: version}))
					}
				}
				b, err := io.ReadAll(r)
				assert.Equal(t, "first", string(b), "it is read to the end")
				return err
			}))
			names := entries(t, f)
			assert.LessOrEqual(t, len(names), 3+keptOpen+3, "with what is not removed yet")
			assert.Contains(t, names, "0.61.1")
			assert.Equal(t, "61", content(t, f))
			assert.ErrorIs(t, f.Publish(t.Context(), fence.Stamp{Token: 60}, text("stale")), coord.ErrStale)
		})
	}
}

// What a writer that is killed leaves behind, step by step: see publish.
func TestTheNextWriterClearsUpAfterOneThatWasKilled(t *testing.T) {
	dead := fence.Stamp{Token: 2}
	write := func(f *File, n name, s string) { _ = os.WriteFile(f.at(n), []byte(s), 0o444) }
	for step, leave := range map[string]func(f *File){
		"before anything": func(*File) {},
		"an empty draft":  func(f *File) { write(f, name{stamp: dead, n: 77, kind: draft}, "") },
		"an unfinished draft": func(f *File) {
			write(f, name{stamp: dead, n: 77, kind: draft}, "ha")
			_ = os.Link(f.at(name{stamp: fence.Stamp{Token: 1}, n: 1}), f.at(name{stamp: dead, kind: claim}))
		},
		"a draft that is linked": func(f *File) {
			_ = os.Link(f.at(name{stamp: fence.Stamp{Token: 1}, n: 1}), f.at(name{stamp: dead, kind: claim}))
			write(f, name{stamp: dead, n: 77, kind: draft}, "second")
			_ = os.Link(f.at(name{stamp: dead, n: 77, kind: draft}), f.at(name{stamp: dead, n: 1}))
		},
		"a version that is not at the path": func(f *File) {
			write(f, name{stamp: dead, n: 1}, "second")
			write(f, name{stamp: dead, n: 78, kind: draft}, "second")
		},
	} {
		t.Run(step, func(t *testing.T) {
			f := open(t)
			publish(t, f, 1, "first")
			leave(f)
			was := content(t, f)
			assert.Contains(t, []string{"first", "second"}, was)
			if step != "before anything" {
				assert.ErrorIs(t, f.Publish(t.Context(), fence.Stamp{Token: 1}, text("stale")), coord.ErrStale)
			}
			assert.Equal(t, was, content(t, f))
			publish(t, f, 3, "third")
			assert.Equal(t, "third", content(t, f))
			plain, err := os.ReadFile(f.Path())
			require.NoError(t, err)
			assert.Equal(t, "third", string(plain))
			for _, e := range entries(t, f) {
				assert.Contains(t, []string{"0.1.1", "0.2.1", "0.3.1"}, e)
			}
		})
	}
}

func TestWhatIsNotOursIsLeftAlone(t *testing.T) {
	f := open(t, Keep(1))
	publish(t, f, 1, "first")
	for _, n := range []string{".nfs000001", "notes.txt", "0000000000.0000000000000000009.1", "9.9.9", "lost+found"} {
		require.NoError(t, os.WriteFile(filepath.Join(f.dir, n), nil, 0o644))
	}
	publish(t, f, 2, "second")
	assert.Equal(t, "second", content(t, f))
	assert.Len(t, entries(t, f), 6)
}

func TestThePathIsALinkOrACopy(t *testing.T) {
	f := open(t)
	publish(t, f, 1, "first")
	path, err := os.Lstat(f.Path())
	require.NoError(t, err)
	version, err := os.Lstat(f.at(name{stamp: fence.Stamp{Token: 1}, n: 1}))
	require.NoError(t, err)
	assert.True(t, os.SameFile(path, version))
	assert.Zero(t, version.Mode().Perm()&0o222, "nobody is to write to it")

	f, err = Open(nil, f.path, Copy())
	require.NoError(t, err)
	publish(t, f, 2, "second")
	require.NoError(t, os.WriteFile(f.Path(), []byte("edited in place"), 0o644))
	assert.Equal(t, "second", content(t, f))
	publish(t, f, 3, "third")
	plain, err := os.ReadFile(f.Path())
	require.NoError(t, err)
	assert.Equal(t, "third", string(plain))
	assert.Equal(t, []string{"edited in place"}, sparedFiles(t, f))
	assert.Equal(t, []string{"0.1.1", "0.2.1", "0.3.1"}, entries(t, f)[:3])
}

// A writer that was stopped just before it put an older version at the path has done so now. refresh puts that right.
func TestAPathThatWentBackIsPutRight(t *testing.T) {
	f := open(t)
	publish(t, f, 1, "first")
	publish(t, f, 2, "second")
	require.NoError(t, os.Remove(f.Path()))
	require.NoError(t, os.Link(f.at(name{stamp: fence.Stamp{Token: 1}, n: 1}), f.Path()))
	require.NoError(t, f.refresh(fence.Stamp{Token: 1}), "he goes on")
	plain, err := os.ReadFile(f.Path())
	require.NoError(t, err)
	assert.Equal(t, "second", string(plain))
}

func TestAPathThatCannotBeReplacedIsToldAndTheVersionIsThere(t *testing.T) {
	f := open(t)
	publish(t, f, 1, "zeroth")
	require.NoError(t, os.Remove(f.path))
	require.NoError(t, os.Mkdir(f.path, 0o755)) // since it was opened
	err := f.Publish(t.Context(), fence.Stamp{Token: 2}, text("first"))
	assert.ErrorContains(t, err, "the new version is written, but not put at the path itself")
	assert.Equal(t, "first", content(t, f))
	assert.Equal(t, []string{"0.1.1", "0.2.1"}, entries(t, f))
}

func TestADirectoryAtThePathIsNoFirstVersion(t *testing.T) {
	f := open(t)
	require.NoError(t, os.Mkdir(f.path, 0o755)) // since it was opened
	err := f.Publish(t.Context(), fence.Stamp{Token: 1}, text("first"))
	assert.ErrorContains(t, err, "it is no plain file")
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink("elsewhere", dir+"/symlink"))
	for path, says := range map[string]string{
		"":                    "it is not the path of a file",
		dir + "/":             "it is not the path of a file",
		dir:                   "it is no plain file",
		dir + "/symlink":      "it is a symbolic link; name the file that it leads to",
		dir + "/missing/file": "the directory has to be there",
		dir + "/symlink/file": "the directory has to be there",
	} {
		_, err := Open(nil, path)
		assert.ErrorContains(t, err, says, "%q", path)
	}
}

func TestAFileIsOneByAllItsNames(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(dir+"/real", 0o755))
	require.NoError(t, os.Symlink("real", dir+"/other"))
	f, err := Open(nil, dir+"/real/file")
	require.NoError(t, err)
	publish(t, f, 1, "first")
	t.Chdir(dir)
	for _, path := range []string{"other/file", "real/../real/file", "./real/file"} {
		g, err := Open(nil, path)
		require.NoError(t, err)
		t.Chdir("/")
		assert.Equal(t, "first", content(t, g))
		t.Chdir(dir)
	}
}

func TestADirectoryThatIsRemovedMeanwhileIsAnError(t *testing.T) {
	f := open(t)
	publish(t, f, 1, "first")
	err := f.Publish(t.Context(), fence.Stamp{Token: 2}, func(w io.Writer) error { return os.RemoveAll(f.dir) })
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorIs(t, f.claim(t.Context(), fence.Stamp{Token: 2}), fs.ErrNotExist)
	publish(t, f, 3, "again")
	assert.Equal(t, "again", content(t, f))
}

// inMemory is a directory where syncing costs nothing, if there is one.
func inMemory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "turnwise")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// The writers have no lock at all: each takes the next token at once, as if every hold were lost as soon as it began.
// Still, every version that was reported as written was made from the one before it, and no reader goes back.
func TestWritersWhoReadFirstOverwriteNobody(t *testing.T) {
	dir := inMemory(t)
	f, err := Open(nil, dir+"/file", Keep(1))
	require.NoError(t, err)
	publish(t, f, 1, "0")
	number := func() (n int, err error) {
		err = f.Read(context.Background(), func(r io.Reader) error { _, err := fmt.Fscan(r, &n); return err })
		return n, err
	}
	var token atomic.Int64
	token.Store(1)
	var mu sync.Mutex
	written, refused := make(map[int]int), 0
	var all sync.WaitGroup
	end := time.Now().Add(2 * time.Second)
	for range 6 {
		all.Go(func() {
			for time.Now().Before(end) {
				next := 0
				err := f.Publish(context.Background(), fence.Stamp{Token: coord.Token(token.Add(1))}, func(w io.Writer) error {
					n, err := number()
					next = n + 1
					return errors.Join(err, text(fmt.Sprint(next))(w))
				})
				mu.Lock()
				switch {
				case err == nil:
					written[next]++
				case errors.Is(err, coord.ErrStale):
					refused++
				default:
					t.Error(err)
				}
				mu.Unlock()
				time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
			}
		})
	}
	all.Go(func() {
		for time.Now().Before(end) {
			mu.Lock()
			sure := 0
			for n := range written {
				sure = max(sure, n)
			}
			mu.Unlock()
			if n, err := number(); err != nil || n < sure {
				t.Errorf("a reader gets %d when %d is there: %v", n, sure, err)
			}
			time.Sleep(time.Millisecond)
		}
	})
	all.Wait()
	for number, times := range written {
		if times != 1 {
			t.Errorf("the number %d was written %d times", number, times)
		}
	}
	t.Logf("%d written, %d refused", len(written), refused)
	assert.NotEmpty(t, written)
	assert.NotZero(t, refused)
}

// While a large directory is read, newer versions keep appearing, and the ones before them disappear.
func TestOneOfTheNewestVersionsIsAlwaysSeen(t *testing.T) {
	f := open(t)
	require.NoError(t, os.Mkdir(f.dir, 0o755))
	for i := range 3000 {
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/%060d", f.dir, i), nil, 0o644))
	}
	at := func(n uint64) string { return f.at(name{stamp: fence.Stamp{Token: 1}, n: n}) }
	require.NoError(t, os.WriteFile(at(1), nil, 0o644))
	var newest atomic.Uint64 // it is there, or has been
	newest.Store(1)
	go func() {
		for n := uint64(2); t.Context().Err() == nil; n++ {
			_ = os.WriteFile(at(n), nil, 0o644)
			newest.Store(n)
			f.discard(name{stamp: fence.Stamp{Token: 1}, n: n - 1})
			time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		}
	}()
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		sure := newest.Load()
		all, err := f.list()
		require.NoError(t, err)
		n, ok := all.newest()
		require.True(t, ok, "nothing is there")
		require.GreaterOrEqual(t, n.n, sure)
	}
}

// Two writers put their versions at the path at the same time, perhaps the older one last: that one looks again.
func TestThePathEndsUpAtTheNewestVersion(t *testing.T) {
	dir := inMemory(t)
	f, err := Open(nil, dir+"/file")
	require.NoError(t, err)
	for round := range 300 {
		var both sync.WaitGroup
		for i := range 2 {
			both.Go(func() {
				time.Sleep(time.Duration(i*rand.IntN(500)) * time.Microsecond)
				err := f.Publish(context.Background(), fence.Stamp{Token: coord.Token(2*round + i + 1)}, text(fmt.Sprint(round, i)))
				if err != nil && !errors.Is(err, coord.ErrStale) {
					t.Error(err)
				}
			})
		}
		both.Wait()
		plain, err := os.ReadFile(f.Path())
		require.NoError(t, err)
		require.Equal(t, content(t, f), string(plain), "round %d", round)
	}
}

func FuzzNames(f *testing.F) {
	f.Add("0000000000.0000000000000001280.000001")
	f.Add("4294967295.9223372036854775807.1000000")
	f.Add("0000000000.0000000000000001280.000000.none")
	f.Add("0000000000.0000000000000001280.~00000000000000ff")
	f.Fuzz(func(t *testing.T, s string) {
		n, ours := parse(s)
		if !ours {
			return
		}
		if n.String() != s || n.stamp.Token <= 0 || strings.ContainsAny(s, "/\x00") {
			t.Errorf("%q is taken for %q", s, n)
		}
		if (n.kind == version) != (n.n > 0) && n.kind != draft {
			t.Errorf("%q is of kind %d", s, n.kind)
		}
	})
}
