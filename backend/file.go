package backend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/coord/file"
)

func files(t *target) (connect, error) {
	if len(t.hosts) > 0 || t.user != "" {
		return nil, errors.New("a path begins with a third slash: write file:///var/lib/locks")
	}
	if strings.ContainsRune(t.path, 0) {
		return nil, errors.New("a path has no zero byte")
	}
	var opts []file.Option
	for name, o := range map[string]file.Option{
		"sync": file.WithSync(), "group": file.WithGroup(), "any-filesystem": file.WithAnyFileSystem(),
	} {
		if t.params.yes(name) {
			opts = append(opts, o)
		}
	}
	return func(ctx context.Context, c config) (*coord.Client, error) {
		dir, mine, err := t.directory()
		if err != nil {
			return nil, err
		}
		if mine {
			if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
				return nil, fmt.Errorf("turnwise: backend file://: %w: make the user's directory, or name one, as file:///var/lib/locks: %w", coord.ErrUnavailable, err)
			}
		}
		return file.Connect(ctx, dir, append(opts, file.WithLogger(c.log), file.WithClient(c.client...))...)
	}, nil
}

// private reports whether a directory of files is for one user alone.
func (t *target) private() bool {
	if t.scheme != "file" {
		return false
	}
	dir, mine, err := t.directory()
	if err != nil {
		return false
	}
	st, err := os.Stat(dir)
	if err != nil {
		return mine && errors.Is(err, fs.ErrNotExist)
	}
	return st.Mode().Perm()&0o077 == 0
}

// directory returns the directory that a URL of files means. mine says that it names none: then it is the user's.
func (t *target) directory() (dir string, mine bool, err error) {
	if t.path != "" && t.path != "/" {
		return t.path, false, nil
	}
	dir, err = own()
	return dir, true, err
}

// own returns the user's directory. It goes by who the user is, not by $HOME or the XDG variables: those differ between
// a cron job, sudo and a shell, and two directories would mean two locks.
func own() (string, error) {
	u, err := user.Current()
	if err != nil || u.HomeDir == "" {
		return "", unreadable{fmt.Errorf("this user has no home: name a directory, as file:///var/lib/locks")}
	}
	return filepath.Join(u.HomeDir, ".local", "state", "turnwise", "locks"), nil
}
