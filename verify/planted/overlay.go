package planted

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Plant returns the files that the bug changes, as they are with the bug, by their names from root. It fails unless every
// text stands there exactly once: a bug that was never planted would go unnoticed for the wrong reason.
func (b Bug) Plant(root string) (map[string]string, error) {
	files := make(map[string]string)
	for _, e := range b.Edits {
		text, begun := files[e.File]
		if !begun {
			read, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				return nil, err
			}
			text = string(read)
		}
		if n := strings.Count(text, e.Was); n != 1 {
			return nil, fmt.Errorf("%s has this %d times, and must have it once; if it was changed, change it in verify/planted, too:\n\t%s", e.File, n, e.Was)
		}
		if e.Was == e.Now {
			return nil, fmt.Errorf("%s: nothing is changed:\n\t%s", e.File, e.Was)
		}
		files[e.File] = strings.Replace(text, e.Was, e.Now, 1)
	}
	return files, nil
}

// overlay writes the file that -overlay wants into dir, and returns its name. root is absolute.
func (b Bug) overlay(root, dir string) (string, error) {
	files, err := b.Plant(root)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for name, text := range files {
		changed := filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, name)] = changed
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, list, 0o600)
}
