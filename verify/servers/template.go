package servers

import (
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
)

// template returns a folder that fill has filled once for all tests of this user: making a new database takes seconds,
// copying one takes a moment. The folder is another one for another build of the program or another recipe.
func template(name, program, recipe string, fill func(dir string) error) (string, error) {
	info, err := os.Stat(program)
	if err != nil {
		return "", err
	}
	key := fnv.New64a()
	fmt.Fprintln(key, program, info.Size(), info.ModTime(), recipe)
	parent := filepath.Join(os.TempDir(), fmt.Sprintf("turnwise-templates-%d", os.Getuid()))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", err
	}
	dir := filepath.Join(parent, fmt.Sprintf("%s-%x", name, key.Sum64()))
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close() // and with it the lock
	if err := lockFile(lock); err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	// It gets its name only once it is whole.
	unfinished := dir + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return "", err
	}
	if err := fill(unfinished); err != nil {
		return "", fmt.Errorf("make a new %s: %w", name, err)
	}
	return dir, os.Rename(unfinished, dir)
}

// copyTemplate copies the template to dir, unless there are data already.
func copyTemplate(dir, template string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	unfinished := dir + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.CopyFS(unfinished, os.DirFS(template)); err != nil {
		return err
	}
	if err := os.Chmod(unfinished, 0o700); err != nil { // PostgreSQL insists on that
		return err
	}
	return os.Rename(unfinished, dir)
}
