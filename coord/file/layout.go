//go:build linux || darwin

package file

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What is in the directory.
const (
	layoutFile   = "layout"    // which layout it is; to replace it is to say that something was forgotten
	registersDir = "registers" // 64 directories with a file for each register; a swap locks the directory
	notesDir     = "notes"     // a directory for each topic, with a named pipe for each listener
	keptDir      = "kept"      // a file for each key that is kept; the process that keeps it has locked it
)

// spareFile is a file in each directory of registers: the next content is written to it, and then it changes places with the
// present one.
const spareFile = ".spare"

func shardName(i int) string { return fmt.Sprintf("%02d", i) }

// layout is what the file of that name says.
type layout struct {
	version string
	id      string // random
	boot    string // during which run of the machine it was written
	sync    bool
	inode   uint64    // of this file: a copy has another. Zero if it does not say
	device  uint64    // it is on: a snapshot that is mounted is on another. Zero if it does not say
	forgot  time.Time // when something in it was forgotten; zero if nothing was
}

const layoutVersion = "1"

func newLayout(boot string, sync bool) layout {
	id := make([]byte, 8)
	rand.Read(id)
	return layout{version: layoutVersion, id: hex.EncodeToString(id), boot: boot, sync: sync}
}

// longestLayout is how much of a layout is read.
const longestLayout = 1 << 12

const layoutHead = "turnwise directory, layout "

func (l layout) String() string {
	written := map[bool]string{false: "no", true: "yes"}
	text := layoutHead + l.version + "\nid " + l.id + "\nboot " + l.boot + "\nsync " + written[l.sync] + "\n"
	if l.inode != 0 {
		text += "inode " + strconv.FormatUint(l.inode, 10) + "\n"
	}
	if l.device != 0 {
		text += "device " + strconv.FormatUint(l.device, 10) + "\n"
	}
	if !l.forgot.IsZero() {
		text += "forgot " + l.forgot.UTC().Format(time.RFC3339Nano) + "\n"
	}
	return text + "\n" +
		"Locks of the processes of this machine: see package coord/file of github.com/turnwise/turnwise.\n" +
		"Remove nothing in here. Remove the whole directory if nobody uses it: \"flock -n DIRECTORY true\" succeeds then.\n"
}

func parseLayout(text string) (layout, error) {
	lines := strings.Split(text, "\n")
	version, ok := strings.CutPrefix(lines[0], layoutHead)
	if !ok {
		return layout{}, errDamaged
	}
	l := layout{version: version}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, " ")
		switch name {
		case "id":
			l.id = value
		case "boot":
			l.boot = value
		case "sync":
			l.sync = value == "yes"
		case "inode":
			l.inode, _ = strconv.ParseUint(value, 10, 64)
		case "device":
			l.device, _ = strconv.ParseUint(value, 10, 64)
		case "forgot":
			l.forgot, _ = time.Parse(time.RFC3339Nano, value)
		}
	}
	return l, nil
}

// openPlace opens the directory, and makes it if it is not there.
func openPlace(ctx context.Context, path string, c *config) (*place, error) {
	p := &place{path: path, sync: c.sync}
	p.users.Store(1)
	if err := p.open(ctx, c); err != nil {
		p.leave()
		return nil, err
	}
	return p, nil
}

func (p *place) open(ctx context.Context, c *config) (err error) {
	if err := p.openRoot(c); err != nil {
		return err
	}
	for _, d := range []struct {
		name string
		d    **dir
	}{{registersDir, &p.registers}, {notesDir, &p.notes}, {keptDir, &p.kept.dir}} {
		if *d.d, err = makeDir(p.root, d.name); err != nil {
			return err
		}
	}
	for i := range p.shards {
		p.shards[i].inside = make(chan struct{}, 1)
	}
	p.kept.inside = make(chan struct{}, 1)
	if ready, err := p.ready(c, false); err != nil || ready {
		return err
	}
	_ = flock(p.root.f, unix.LOCK_UN) // whoever waits does not use it yet: see alone
	if err := p.lock(ctx, &p.kept); err != nil {
		return err
	}
	defer p.unlock(&p.kept)
	if _, err = p.ready(c, true); err != nil {
		return err
	}
	return p.lockRoot(c)
}

// openRoot opens the directory itself, and refuses what does not suit.
func (p *place) openRoot(c *config) error {
	switch st, err := os.Stat(p.path); {
	case errors.Is(err, fs.ErrNotExist):
		parent := filepath.Dir(p.path)
		if err := suits(parent, c); errors.Is(err, unix.ENOENT) {
			return missing("%s cannot be made, since there is no %s: make that first", p.path, parent)
		} else if err != nil {
			return err
		}
		if err := makeTop(p.path, c.group); err != nil && !errors.Is(err, fs.ErrExist) {
			return unnamed("make the directory", err)
		}
	case err != nil:
		return unnamed("open the directory", err)
	case !st.IsDir():
		return missing("%s is a file, not a directory: name another", p.path)
	}
	if err := suits(p.path, c); err != nil {
		return err
	}
	top, st, err := openTop(p.path)
	if err != nil {
		return err
	}
	top.by = ownersOf(&st, aclAt(top.fd()))
	p.root = top
	if err := p.suitsRights(c, &st); err != nil {
		return err
	}
	if err := p.lockRoot(c); err != nil {
		return err
	}
	return p.foreign()
}

// suitsRights refuses a directory whose rights do not suit.
func (p *place) suitsRights(c *config, st *unix.Stat_t) error {
	switch mode := fs.FileMode(st.Mode & 0o777); { // also if it is 16 bits, as on macOS
	case mode&0o002 != 0:
		return denied("everybody may write to %s (%v): chmod 700 it, or 2770 for a group", p.path, mode)
	case mode&0o020 != 0 && !p.root.by.group: // whoever may rename what is in it can have two enter at once
		return denied("others may write to %s (%v) who do not take part: chmod 700 it, or 2770 for a group, and take away its access control list, "+
			"if it has one (setfacl -b)", p.path, mode)
	case st.Mode&unix.S_ISVTX != 0 && p.root.by.group: // so that no other could replace the layout
		return denied("in %s each of the group may remove only what is his own (the sticky bit): chmod 2770 it", p.path)
	case c.group && !p.root.by.group:
		return denied("the group may not use %s (%v): chmod 2770 it", p.path, mode)
	case os.Geteuid() != 0 && !p.root.by.ours(st):
		return denied("%s is user %d's, and no group's: name a directory of your own", p.path, st.Uid)
	}
	return nil
}

// lockRoot shows an operator that the directory is in use, and lets him lock it to remove it. It also makes systemd-tmpfiles
// leave it alone.
func (p *place) lockRoot(c *config) error {
	err := flock(p.root.f, unix.LOCK_SH|unix.LOCK_NB)
	for tries := 0; err == unix.EWOULDBLOCK && tries < 100; tries++ { // somebody may just be clearing it
		time.Sleep(20 * time.Millisecond)
		err = flock(p.root.f, unix.LOCK_SH|unix.LOCK_NB)
	}
	if err == nil {
		return nil
	}
	switch {
	case err == unix.EWOULDBLOCK && p.strangersMayLock():
		c.Log.Warn("file: somebody has locked the directory with flock, which proves nothing, since users may lock it who may not write to it: chmod 700 it, or 2770 for a group", "dir", p.path)
	case err == unix.EWOULDBLOCK:
		return fmt.Errorf("file: somebody has locked %s with flock, perhaps an operator: wait until it is free", p.path)
	default:
		return refusal("lock "+p.path, err)
	}
	return nil
}

// strangersMayLock reports whether a lock on the directory may be that of somebody who does not take part.
func (p *place) strangersMayLock() bool {
	var st unix.Stat_t
	err := again(func() error { return unix.Fstat(int(p.root.f.Fd()), &st) })
	return err == nil && p.root.by.othersMayLock(&st)
}

// alone reports whether nobody else uses the directory, and nobody keeps a key in it. If so it is ours until lockRoot, where no
// strangers may lock it. Containers may have a boot id of their own, or none that can be read, and share the directory all the same.
func (p *place) alone() bool {
	for tries := 0; flock(p.root.f, unix.LOCK_EX|unix.LOCK_NB) != nil; tries++ {
		if tries == 20 {
			if p.strangersMayLock() {
				break // it proves nothing: only a key that somebody keeps does
			}
			return false
		}
		time.Sleep(10 * time.Millisecond) // others who have just come let go of it
	}
	names, err := p.kept.dir.names()
	for _, name := range names {
		if !isName(name) {
			continue // a pipe, or nothing of ours
		}
		fd, _, err := p.kept.dir.file(name, unix.O_RDONLY)
		if err != nil {
			continue // what is no file of ours keeps nothing
		}
		f := os.NewFile(uintptr(fd), name)
		free := flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil
		f.Close()
		if inherited, err := p.inherited(name); !free || inherited || err != nil {
			return false
		}
	}
	return err == nil
}

// foreign refuses a directory that is full of other things.
func (p *place) foreign() error {
	if _, err := p.root.stat(layoutFile); err == nil {
		return nil
	}
	names, err := p.root.names()
	for _, n := range names {
		switch n {
		case layoutFile, "." + layoutFile, registersDir, notesDir, keptDir, "lost+found":
		default:
			if strings.HasPrefix(n, newPrefix) { // somebody else is making one of these
				continue
			}
			return denied("%s has other files in it, such as %s: name an empty or a new directory", p.path, n)
		}
	}
	if err != nil {
		return refusal("list "+p.path, err)
	}
	return nil
}

// makeDir opens a directory of ours, and makes it if it is not there.
func makeDir(in *dir, name string) (*dir, error) {
	d, err := in.makeSub(name)
	if err != nil {
		return nil, refusal(in.pathOf(name), err)
	}
	if err = d.writable(); err != nil {
		err = refusal("write to "+d.path(), err)
	} else {
		err = d.closed()
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// ready reads which layout the directory has, and reports whether it is as it should be. With the lock of kept it makes it
// so: a directory without a layout gets one, and one from before the machine was last started is cleared of what is left, unless
// somebody uses it.
func (p *place) ready(c *config, locked bool) (ready bool, err error) {
	boot := bootID()
	text, st, err := p.root.read(layoutFile, longestLayout)
	if errors.Is(err, fs.ErrNotExist) {
		if !locked {
			return false, nil
		}
		if err := p.makeShards(); err != nil {
			return false, err
		}
		return p.writeAndOpen(newLayout(boot, c.sync))
	}
	if err != nil {
		return false, refusal("read the layout", err)
	}
	l, err := parseLayout(string(text))
	if err != nil || l.version != layoutVersion {
		return false, denied("%s has another layout than %s, which this version of turnwise has: %q. Use the version that made it, or another directory",
			p.path, layoutVersion, firstLine(text))
	}
	if l.sync != c.sync {
		return false, denied("%s is used %s WithSync, and all who use it must agree; to change it, stop them and remove %s",
			p.path, map[bool]string{true: "with", false: "without"}[l.sync], filepath.Join(p.path, layoutFile))
	}
	// Somebody has put a copy here. Who uses the directory that was here before has it open, so that the copy is another file; and he may
	// not have noticed yet. So it is with a snapshot of the disk that was mounted here, where the file has the same number. That devices may
	// have other numbers after a start of the machine looks the same.
	is := numberOf(&st)
	copied := l.inode != 0 && l.inode != is.inode || l.device != 0 && l.device != is.device
	next := newLayout(boot, c.sync)
	if copied {
		next.forgot = time.Now()
	}
	switch {
	case l.boot == boot && !copied:
		return p.openLayout()
	case !locked:
		return false, nil
	case l.boot == boot:
		c.Log.Warn("file: the directory is a copy of another, or was put back from a backup: nobody is let in until those who used the one before must have noticed", "dir", p.path)
		return p.writeAndOpen(next)
	case !p.alone():
		c.Log.Info("file: the directory is in use, and was made under another boot id or one that is not known: are there containers?", "dir", p.path)
		return p.openLayout()
	}
	p.clear(c.Log)
	return p.writeAndOpen(next)
}

func (p *place) writeAndOpen(l layout) (ready bool, err error) {
	if err := p.writeLayout(l); err != nil {
		return false, err
	}
	return p.openLayout()
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(string(text[:min(len(text), 80)]), "\n")
	return line
}

func (p *place) makeShards() error {
	for i := range shards {
		d, err := makeDir(p.registers, shardName(i))
		if err != nil {
			return err
		}
		if p.sync {
			err = flush(d.f)
		}
		d.close()
		if err != nil {
			return refusal("write the directory", err)
		}
	}
	if p.sync {
		return flush(p.registers.f)
	}
	return nil
}

// writeLayout replaces the layout. It needs the lock of kept.
func (p *place) writeLayout(l layout) error {
	const tmp = "." + layoutFile
	p.root.remove(tmp)
	fd, err := p.root.makeFile(tmp, unix.O_WRONLY)
	if err != nil {
		return refusal("write the layout", err)
	}
	f := os.NewFile(uintptr(fd), p.root.pathOf(tmp))
	defer f.Close()
	var st unix.Stat_t
	if err := again(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return refusal("write the layout", err)
	}
	is := numberOf(&st)
	l.inode, l.device = is.inode, is.device
	if _, err = f.WriteString(l.String()); err == nil && l.sync {
		err = flush(f)
	}
	if err == nil {
		err = p.root.rename(tmp, layoutFile)
	}
	if err == nil && l.sync {
		err = flush(p.root.f)
	}
	if err != nil {
		return refusal("write the layout", err)
	}
	return nil
}

// disown makes everybody who uses the directory find out that something in it was forgotten.
func (p *place) disown() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := p.lock(ctx, &p.kept); err != nil {
		return err
	}
	defer p.unlock(&p.kept)
	if p.check() != nil { // somebody has done it already
		return nil
	}
	l := newLayout(bootID(), p.sync)
	l.forgot = time.Now()
	return p.writeLayout(l)
}

// openLayout keeps the layout open, and takes its number for the directory's.
func (p *place) openLayout() (ready bool, err error) {
	name := p.root.pathOf(layoutFile)
	fd, st, err := p.root.file(layoutFile, unix.O_RDONLY)
	if err != nil {
		return false, refusal("open "+name, err)
	}
	p.layout = os.NewFile(uintptr(fd), name)
	// Another may have been put there since it was read.
	text := make([]byte, longestLayout)
	n, err := readAt(fd, text, 0)
	if err != nil {
		return false, refusal("read "+name, err)
	}
	l, err := parseLayout(string(text[:n]))
	if err != nil {
		return false, denied("%s: %w", name, err)
	}
	p.number = numberOf(&st)
	p.since = l.forgot
	// A copy of the directory has the same id, but it is another file.
	p.memory = fmt.Sprintf("%s-%x-%x-%s", l.id, p.number.device, p.number.inode, l.boot)
	return true, nil
}

// clear removes what is of no use after a restart of the machine: pipes, locks, and registers that a power cut has left half
// written. All earlier processes are dead. What has no name of ours stays.
func (p *place) clear(log *slog.Logger) {
	for i := range shards {
		d, err := p.registers.sub(shardName(i))
		if err != nil {
			continue
		}
		names, _ := d.names()
		for _, name := range names {
			if name == spareFile {
				d.remove(name)
			} else if _, err := load(d, name, false); err == errDamaged && isName(name) && d.remove(name) {
				log.Error("file: a register was lost when the machine stopped", "dir", p.path, "file", name)
			}
		}
		d.close()
	}
	topics, _ := p.notes.names()
	for _, topic := range topics {
		if d, err := p.notes.sub(topic); err == nil {
			names, _ := d.names()
			for _, name := range names {
				if _, _, beside := isBeside(name); beside || isPipe(name) {
					d.remove(name)
				}
			}
			d.close()
			p.notes.removeSub(topic)
		}
	}
	kept, _ := p.kept.dir.names()
	for _, name := range kept {
		if isName(strings.TrimPrefix(name, "~")) {
			p.kept.dir.remove(name)
		}
	}
}

func unfitFor(path, fileSystem string) error {
	return denied("%s is on %s, which several machines may share, or where locks or named pipes do not work as on a disk of this machine: "+
		"name a directory on a disk or a tmpfs, or use WithAnyFileSystem if you know better", path, fileSystem)
}
