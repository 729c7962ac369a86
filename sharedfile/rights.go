package sharedfile

import (
	"io/fs"
	"os"
)

// rights say to whom a file belongs, and who may read it.
type rights struct {
	fs.FileInfo
	list accessList
}

// rightsAt returns the rights of what has a path, and rightsOf those of an open file.
func rightsAt(path string, st fs.FileInfo) *rights { return &rights{st, listAt(path)} }

func rightsOf(f *os.File) (*rights, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &rights{st, listOf(f)}, nil
}

// resemble gives a file the owner, the group and the rights to read of another one, and its owner more. Where it may not
// give them, nobody gets a right that they did not have before: the rights of a group go with that group only, and those who are
// named in an access control list are not told apart without it.
func resemble(out *os.File, like *rights, more fs.FileMode) error {
	owner, group, known := ownersOf(like)
	foreign := false // the group is another one
	if known && out.Chown(owner, group) != nil && out.Chown(-1, group) != nil {
		st, err := out.Stat()
		if err != nil {
			return err
		}
		_, own, _ := ownersOf(st)
		foreign = own != group
	}
	if like.list != nil {
		if like.list.give(out, foreign, more) == nil {
			return nil
		}
		foreign = true
	} else if err := unlist(out); err != nil {
		return err
	}
	mode := like.Mode().Perm()&^0o222 | 0o400 | more
	switch {
	case like.list != nil, foreign && mode&0o040 == 0: // somebody may be shut out whom nobody can tell from all others now
		mode &^= 0o077
	case foreign:
		mode &^= 0o070
	}
	return out.Chmod(mode)
}
