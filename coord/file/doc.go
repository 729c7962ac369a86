// Package file runs turnwise's recipes on a directory: for the processes of one machine, without any service.
//
//	client, err := file.Connect(ctx, "/var/lib/app/locks")
//	m := mutex.New(client, "orders/42")
//	hold, err := m.Lock(ctx)
//	defer hold.Release()
//
// It needs Linux or macOS. All processes of the machine that name the same directory share its locks. Several containers can
// share them as well, as long as they run on one kernel and the directory is mounted into each.
//
// # What it promises
//
//   - Turns come in the order in which they were asked for, across all processes.
//   - When a process ends, its holds end with it, and the next waiter goes on within milliseconds, even after kill -9: the
//     kernel tells. There is no TTL and nothing to renew. So a process that is stopped (kill -STOP, a debugger) keeps what
//     it holds for as long as it is stopped. Programs that it has started keep nothing for it.
//   - A waiter is told when its turn has come, and until then looks only now and then.
//   - Tokens rise, whatever becomes of the processes, until the power or the kernel fails. Then the last seconds of what was
//     written may be lost. Two never hold at once even so, since all earlier processes are dead, but a token may be given a second
//     time. With [WithSync] nothing is lost, and tokens rise for ever: each swap is on the disk before it is answered. A lock and an
//     unlock then take two waits for the disk.
//   - A full disk damages nothing: joins and leaves fail, and are tried again until there is room. Lines can be looked at
//     meanwhile.
//
// It does not promise that a process with the rights to write to the directory plays by the rules. A process that is stopped
// in the few microseconds of a swap has 1 in 64 registers locked, and stops all others that want to swap one of these. They
// get the errors of their contexts until it goes on or is killed.
//
// # Where to put the directory
//
// On a disk of this machine, or on a tmpfs if the locks need not survive a restart. File systems that several machines may
// share (NFS, SMB, FUSE, 9p, Ceph, Lustre and the like) are refused, because flock may not reach from one machine to the
// next there. If two machines share a directory all the same ([WithAnyFileSystem]), each one that opens it notices that the
// other has, and all sessions end again and again: loud, but safe. Do not put it where old files are cleaned away.
//
// If there is no directory it is made, with mode 0700. [WithGroup] makes it for all users of its group, with mode 2770. On
// Linux an operator can do the same:
//
//	install -d -m 2770 -g app /var/lib/app/locks
//
// A directory is refused to which others may write who do not take part (0730, or by an access control list), in which each may
// remove only what is his own (1770), or in which others may open what we have put there. A list may let further users read, or
// read and write with a default list that lets them do so within.
//
// A process takes five file handles, and in addition one for each of the 64 directories of registers that it has used, one
// for each topic that it listens to (a session is one, and so is each election that is observed), and two for each session.
//
// # What an operator sees
//
//	layout                       which layout it is; written when the directory was made, or the machine started
//	registers/17/line,orders,42  what stands in a line; its first line says version, checksum and lengths
//	notes/session,5f…/4711-3c…   a pipe by which process 4711 is told
//	kept/session,5f…             the process of a session has locked this file; it says which process that is
//	kept/~session,5f…            a pipe that is open for as long as the session lasts, also in processes that have inherited it
//
// Files are named after lines and sessions, with a comma for each slash and %xx for anything but small letters, digits, "-",
// "_" and ".". A name that would be longer than 140 bytes ends in a hash. A file whose name begins with a dot or a tilde is
// no register.
//
//	cat /var/lib/app/locks/kept/*          # who takes part
//	fuser /var/lib/app/locks/kept/*        # who keeps a session, also those who have inherited it
//	flock -n /var/lib/app/locks true       # succeeds if nobody does
//	flock -n /var/lib/app/locks rm -r /var/lib/app/locks   # the safe way to remove it, if fuser shows nobody
//
// flock does not see who has only inherited a session ([Descriptors]), as the command of a "turnwise lock" that was killed.
// This needs a directory that no others may open, as it is if we have made it. In one with mode 0755, say, anybody could lock
// the directory, so such a lock keeps nobody out.
//
// Do not remove anything in it by hand while somebody uses it. If that happens, or the directory is moved, or a backup is
// put in its place, a process notices at its next swap, or within half a second if it does not swap; if only a directory within it is
// moved or replaced, within half a second. Then its sessions end,
// and its holds with them (coord.ErrLost). A process that comes meanwhile may enter
// beside a holder that has not noticed yet, unless it finds a copy in the directory's place, or a snapshot of the disk that was mounted
// there: then it waits for some ten seconds. So does whoever comes first after a start of the machine that gave the disk another number.
// A copy of a directory is a directory of its own: it has the tokens of the first, but not its holds.
//
// A backup need not have the directory, since nobody waits for what is in it. If one is put back all the same, put it in the place of the
// whole directory, as above, and not its files into the one that is there: nobody can tell those from what stood there, so whoever comes
// may enter beside a holder, who notices only when he looks next, after some seconds. In both cases tokens that were given since the
// backup are given again: raise the epoch of what they guard.
//
// What killed processes leave behind is removed by those that come next.
package file
