package sharedfile

import (
	"os"
	"time"
)

// keptUnseen is how long a version stays where nobody can tell whether it is open.
const keptUnseen = time.Hour

// prune removes what nobody will read: all but the newest few versions, all claims but the newest name, and drafts with
// a smaller stamp than that. It never removes what readers read, so the greatest stamp is always there. What cannot be
// removed is left to the next writer.
func (f *File) prune() {
	all, err := f.list()
	if err != nil {
		return
	}
	newest, ok := all.newest()
	if !ok {
		return
	}
	var old []name
	versions := 0
	for _, n := range all.readable {
		if n.kind == version {
			versions++
		}
		if n != newest && (n.kind != version || versions > f.keep) {
			old = append(old, n)
		}
	}
	for _, d := range all.drafts {
		if d.stamp.Compare(newest.stamp) < 0 {
			old = append(old, d)
		}
	}
	// The newest may belong to a writer that has not synced it yet. Until it is on the disk, older ones must stay there.
	if len(old) == 0 || syncDir(f.dir) != nil {
		return
	}
	f.removing(func() {
		for _, n := range old {
			f.remove(n)
		}
	})
}

// remove removes a name unless somebody has the file open.
func (f *File) remove(n name) {
	path := f.at(n)
	if n.kind == draft || n.kind == empty { // nobody reads these
		_ = os.Remove(path)
		return
	}
	v, err := os.Open(path)
	if err != nil {
		return
	}
	defer v.Close()
	free, known := lockAlone(v)
	if st, err := v.Stat(); !known {
		free = err == nil && time.Since(st.ModTime()) >= keptUnseen
	}
	if free {
		_ = os.Remove(path)
	}
}
