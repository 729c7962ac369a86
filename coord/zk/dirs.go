package zk

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	gozk "github.com/go-zookeeper/zk"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/zk/internal/wire"
)

// within calls do with a line's directory and those above it that are missing, outermost first. do makes them, together
// with what is to stand in the line, in one transaction: then the service has seen something in each of them. It removes them
// once they are empty, but never a container that nothing has been in.
//
// They are plain nodes if the service has no containers, and also with Kazoo's names: Kazoo's Lock checks only once that its
// directory is there, and fails if it has gone since. Where there are rights to protect, the root stays: whoever made it again
// would decide who may do what in it. So does the directory of the memos.
//
// If all of them have come to be there meanwhile, the error is ErrNodeExists.
func (s *session) within(dir string, do func(dirs []wire.Node) error) error {
	var all []string // outermost first
	for d := dir; d != "/"; d = path.Dir(d) {
		all = append(all, d)
	}
	slices.Reverse(all)
	few, n, many := 0, 1, len(all)+1 // so many are too few, are tried, are too many
	for {
		missing := s.directories(all[len(all)-n:])
		err := do(missing)
		if err == nil || passing(err) { // the answer that was lost may have been that they were made
			s.sweepLater(missing)
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, gozk.ErrNoNode) && n < len(all):
			few = n
		case errors.Is(err, gozk.ErrNodeExists) && n > 1:
			many = n
		case unimplemented(err):
			s.service.log.Info("zk: the service has no container nodes, so directories are plain ones")
			s.service.plainDirs.Store(true)
			continue
		default:
			outermost := missing[0].Path
			return explainRefusal(err, "creating", outermost, "CREATE", path.Dir(outermost))
		}
		switch {
		case few+1 >= many: // some have come or gone meanwhile
			few, n, many = 0, 1, len(all)+1
		case many > len(all):
			n = min(2*n, len(all))
		default:
			n = (few + many) / 2
		}
	}
}

func (s *session) directories(paths []string) []wire.Node {
	dirs := make([]wire.Node, len(paths))
	for i, p := range paths {
		dirs[i] = wire.Node{Path: p, Flags: gozk.FlagContainer}
		if s.stays(p) || s.service.way == Kazoo || s.service.plainDirs.Load() {
			dirs[i].Flags = gozk.FlagPersistent
		}
	}
	return dirs
}

func (s *session) stays(dir string) bool {
	return dir == s.service.memos() || !s.service.openToAll && strings.HasPrefix(s.service.root+"/", dir+"/")
}

// makeDir makes a directory that stays, and those above it.
func (s *session) makeDir(ctx context.Context, dir string) error {
	err := s.within(dir, func(dirs []wire.Node) error {
		_, err := persist(ctx, s, func() (string, error) {
			if err := s.enter(ctx); err != nil {
				return "", err
			}
			all, made := wire.CreateAll(dirs, s.service.acl)
			s.usable.Load().Send(all.Then(s.exit))
			return answer(ctx, s, made)
		})
		return err
	})
	if errors.Is(err, gozk.ErrNodeExists) {
		return nil
	}
	return err
}

// sweepLater keeps in mind which plain directories this session has made.
func (s *session) sweepLater(dirs []wire.Node) {
	if !s.service.plainDirs.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range dirs {
		if !s.stays(d.Path) {
			s.lines[d.Path] = struct{}{}
		}
	}
}

// removeEmptyLines removes the plain directories that this session made and that are empty, inner ones first.
func (s *session) removeEmptyLines(ctx context.Context) {
	s.mu.Lock()
	dirs := make([]string, 0, len(s.lines))
	for d := range s.lines {
		dirs = append(dirs, d)
	}
	clear(s.lines)
	s.mu.Unlock()
	slices.SortFunc(dirs, func(a, b string) int { return strings.Compare(b, a) })
	for _, d := range dirs {
		if ctx.Err() != nil {
			return
		}
		_, _ = ask(ctx, s, func(c *gozk.Conn) (struct{}, error) { return struct{}{}, c.Delete(d, -1) })
	}
}

// Our rights protect what we create. A directory that already existed has the rights that its maker gave it, and these
// decide about the nodes in it: CREATE lets somebody stand in line, DELETE end a hold, ADMIN take any right. So when there
// are rights to protect, directories are checked before anybody is let in.
const decisive = gozk.PermCreate | gozk.PermDelete | gozk.PermAdmin

// maxVetted is how many directories a session remembers.
const maxVetted = 4096

// vetted is which directories a session has checked, and the transactions that made them. Only those who may change their
// rights can have done so since.
type vetted struct {
	mu   sync.Mutex
	dirs map[string]int64
}

func (v *vetted) knows(dir string, born int64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	known, ok := v.dirs[dir]
	return ok && (born == 0 || known == born)
}

func (v *vetted) add(dir string, born int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.dirs == nil || len(v.dirs) >= maxVetted {
		v.dirs = make(map[string]int64)
	}
	v.dirs[dir] = born
}

// vet refuses a line's directory, or a root, in which others have rights that ours do not give them. It asks about each
// directory once per session.
func (s *session) vet(ctx context.Context, dir string, born int64) error {
	if s.service.openToAll || s.vetted.knows(dir, born) {
		return nil
	}
	if err := s.vetRoot(ctx); err != nil {
		return err
	}
	return s.vetOne(ctx, dir, born)
}

// vetRoot is vet for the root. Somebody who may create in it can deny us a line that is not yet in use, and no more. So a
// root whose rights we may not see is left to its owner.
func (s *session) vetRoot(ctx context.Context) error {
	root := s.service.root
	if s.service.openToAll || root == "" || s.vetted.knows(root, 0) {
		return nil
	}
	err := s.vetOne(ctx, root, 0)
	if errors.Is(err, gozk.ErrNoAuth) {
		return nil
	}
	return err
}

func (s *session) vetOne(ctx context.Context, dir string, born int64) error {
	type rights struct {
		acl  []gozk.ACL
		made int64
	}
	has, err := fetch(ctx, s, func(c *gozk.Conn) (has rights, err error) {
		all, stat, err := c.GetACL(dir)
		if err == nil {
			has = rights{all, stat.Czxid}
		}
		return has, err
	})
	switch {
	case errors.Is(err, gozk.ErrNoNode), err == nil && born != 0 && born != has.made:
		return gozk.ErrNoNode // the directory in question has gone
	case err != nil:
		return explainRefusal(err, "looking at the rights of", dir, "READ", "")
	}
	for _, entry := range has.acl {
		if excess := s.service.excess(entry); excess != 0 {
			return &openDir{dir, entry, excess}
		}
	}
	s.vetted.add(dir, has.made)
	return nil
}

// excess returns the decisive rights in an entry that ours do not give to the same somebody.
func (c *config) excess(entry gozk.ACL) int32 {
	excess := entry.Perms & decisive
	// To clients without ADMIN, servers show no more of a digest than the name. So an entry with our name and ADMIN is not us.
	name, masked := strings.CutSuffix(entry.ID, ":x")
	masked = masked && entry.Scheme == "digest"
	if masked && excess&gozk.PermAdmin != 0 && slices.ContainsFunc(c.auth, func(a credential) bool { return a.user() == name }) {
		return excess
	}
	for _, t := range c.trusted {
		same := t.Scheme == entry.Scheme && (t.ID == entry.ID || t.ID == "" || masked && strings.HasPrefix(t.ID, name+":"))
		if same || t.Scheme == "world" {
			excess &^= t.Perms
		}
	}
	return excess
}

// trust works out what the access rights mean at the service, where "auth" stands for whoever the session was introduced
// as, by name and password or by a certificate.
func (c *config) trust() {
	for _, a := range c.acl {
		if a.Scheme != "auth" {
			c.trusted = append(c.trusted, a)
			continue
		}
		for _, credential := range c.auth {
			name, password, _ := strings.Cut(string(credential.data), ":")
			c.trusted = append(c.trusted, gozk.DigestACL(a.Perms, name, password)...)
		}
		if c.tls != nil { // only the service knows how it writes a certificate's name
			c.trusted = append(c.trusted, gozk.ACL{Perms: a.Perms, Scheme: "x509"})
		}
	}
}

func (c credential) user() string {
	name, _, _ := strings.Cut(string(c.data), ":")
	return name
}

// openDir is the error about a directory that is open to others.
type openDir struct {
	dir    string
	to     gozk.ACL
	excess int32
}

func (e *openDir) Error() string {
	var rights []string
	for i, name := range []string{"READ", "WRITE", "CREATE", "DELETE", "ADMIN"} {
		if e.excess&(1<<i) != 0 {
			rights = append(rights, name)
		}
	}
	return fmt.Sprintf("%s is open to others: %q has %s there, so the lines in it are not safe. Somebody else made it, or it is from "+
		"before the access rights were set: correct it (setAcl), remove it, or name in WithACL whoever is to have these rights",
		e.dir, e.to.Scheme+":"+e.to.ID, strings.Join(rights, ", "))
}

func (e *openDir) Unwrap() error { return driver.ErrDenied }
