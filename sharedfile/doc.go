// Package sharedfile is one file that many processes read and write. A reader always gets the newest version, and the
// whole of it; a writer that has lost the lock writes a version that nobody reads.
//
//	locks, err := file.Connect(ctx, "/var/lib/app/locks") // or any other engine
//	prices, err := sharedfile.Open(mutex.New(locks, "prices"), "/var/lib/app/prices.json")
//
//	err = prices.Write(ctx, func(w io.Writer) error { return json.NewEncoder(w).Encode(table) })
//	err = prices.Read(ctx, func(r io.Reader) error { return json.NewDecoder(r).Decode(&table) })
//
// The lock may be on any engine, so the file may be on one host or on a file system that several share. Readers need no
// lock, and may give Open a nil one.
//
// # How it works
//
// Each version is a file of its own, in a directory beside the path:
//
//	prices.json                                                  the newest version, for programs that know nothing of this
//	prices.json.versions/0000000000.0000000000000001024.000001   epoch, token, and which version of that token
//	prices.json.versions/0000000000.0000000000000001280.000001   the newest: readers take the greatest name
//
// A version is written under another name, synced, and linked to its own name, which fails if that name exists already.
// It is never written to again. A writer begins by linking the newest version to a name with its own token and a zero
// at the end. From then on, whatever a writer with a smaller token may still link is not the greatest, and nobody will
// ever read it. There is no moment at which it could slip through, however long it was stopped, and whatever it had
// looked at before.
//
// What a writer with a smaller token has linked before that is a version like any other, and the newer one begins from
// it. So to change what is there, Read inside Write: then no version that was reported as written is overwritten
// unseen, even if all holds were lost at once. If two writers meet at the same moment, the one with the smaller token
// is told that it is stale, and a reader may see its version for as long as the other needs to link a name.
//
// # The plain path
//
// The path itself is also kept at the newest version, for programs that just open it. That only narrows the window: a
// writer that is stopped just before it replaces the path can put an older version there, until it or somebody else
// writes again. Whatever is there is always whole.
//
//   - It is a link to the newest version, which costs nothing. Versions are not writable, so a program that tries to
//     edit one in place is refused, unless it is root; if it succeeds, it has changed a version.
//   - With [Copy] it is a copy, and editing it does no harm. That costs the space and the time of a copy.
//
// A file that is at the path before anybody has written is what Read reads; the first writer makes it the first version. A file
// that somebody else puts at the path later, as editors and sed -i do, is no version: Read goes on with the newest one. The
// next writer replaces it, and keeps a copy in the directory of versions, under a name that begins with "spared."; [Spared]
// says so. The newest 16 of these stay. What is put there while the writer replaces the path is lost.
//
// A new version has the owner, the group and the rights to read of what is at the path, as far as the writer may give them;
// nobody gets more rights than before. On Linux that goes for its access control list, too: it has the same, or none, whatever list the
// directory gives to new files. With [Copy] the owner may write to it, too. The first version is readable as far as the
// writer's umask allows, or the directory's list. The names of versions can be seen by whoever may read the directory.
//
// # Who else may write there
//
// All who may write to the directory of the file can replace what is in it. But no link or pipe that they put there leads a
// reader or a writer to another file, or keeps it waiting: that is an error. In a directory to which everybody may write, such as
// /tmp, a writer refuses ([fs.ErrPermission]) a file and versions that another user has put there, unless that is root or the
// owner of the directory.
//
// # What is kept
//
// The newest versions, three of them unless [Keep] says otherwise, and those that a reader has open, up to 16. A reader that
// has an older one open reads that to its end, but on NFS it may get an error. The newest is never removed: its name records
// which tokens are too small. So remove nothing in the directory by hand, and restore it from a backup only when all writers
// have been stopped, and with a new [Epoch]. While a process is stopped that was just reading the directory, nothing is
// removed until there are 16 versions too many, or with a Keep of more than 80 until it goes on.
//
// # When something fails
//
//   - A process that is killed, at whatever moment, leaves the newest version as it was, or has written its own.
//     Anything else it leaves, such as half a file, is removed by the next writer with a greater token.
//   - Versions and their names are on the disk when Write returns.
//   - A full disk, or a directory that may not be written to, causes an error and changes nothing.
//   - On a file system without hard links (FAT, some network shares) Write returns an error that says so.
//
// On NFS a reader may get the version before the newest for as long as the client caches a directory. Where files
// cannot be locked, nobody can tell which are open, so each version is kept for an hour.
//
// # Another engine
//
// Tokens start again when a lock moves to another engine: see package fence. Raise the [Epoch] then.
package sharedfile
