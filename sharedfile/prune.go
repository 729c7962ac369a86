package sharedfile

import (
	"time"
)

// keptUnseen is how long a version stays where nobody can tell whether it is open.
const keptUnseen = time.Hour

// Whoever may only read can lock all that is there, and keep it locked. So no more than this is kept because somebody has it
// open: where there are such locks, a file that is open can be read to its end without a name.
const (
	keptOpen = 16  // names, beyond the versions that are kept anyway
	oneStep  = 100 // so many names are read in one step: nobody misses one of them because others are removed
)

// prune removes what nobody will read: all but the newest few versions, all claims but the newest name, and drafts with
// a smaller stamp than that. Of what readers read it removes only what is far too much, and never the newest, so the greatest
// stamp is always there. What cannot be removed is left to the next writer.
func (f *File) prune() {
	all, err := f.list()
	if err != nil {
		return
	}
	newest, ok := all.newest()
	if !ok {
		return
	}
	var old, oldest []name
	versions := 0
	for i, n := range all.readable {
		if n.kind == version {
			versions++
		}
		switch {
		case n == newest || n.kind == version && versions <= f.keep:
		case i >= f.keep+keptOpen:
			oldest = append(oldest, n)
		default:
			old = append(old, n)
		}
	}
	for _, d := range all.drafts {
		if d.stamp.Compare(newest.stamp) < 0 {
			old = append(old, d)
		}
	}
	// The newest may belong to a writer that has not synced it yet. Until it is on the disk, older ones must stay there.
	if len(old)+len(oldest) == 0 || f.sync() != nil {
		return
	}
	few := len(all.readable)+len(all.drafts) <= oneStep
	f.removing(few && len(oldest) > 0, func() {
		for _, n := range old {
			f.remove(n, false)
		}
		for _, n := range oldest {
			f.remove(n, true)
		}
	})
}

// remove removes a name unless somebody has the file open, or even then.
func (f *File) remove(n name, open bool) {
	if n.kind == draft || n.kind == empty { // nobody reads these
		f.unlink(n.String())
		return
	}
	v, err := f.open(n)
	if err != nil {
		return
	}
	defer v.Close()
	free, known := lockAlone(v)
	if st, err := v.Stat(); known {
		free = free || open
	} else {
		free = err == nil && time.Since(st.ModTime()) >= keptUnseen
	}
	if free {
		f.unlink(n.String())
	}
}
