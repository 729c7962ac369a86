// Package file lets turnwise's recipes run on a directory: for processes of one machine, without any service.
//
//	client, err := file.Connect(ctx, "/var/lib/app/locks")
//	m := mutex.New(client, "orders/42")
//	hold, err := m.Lock(ctx)
//	defer hold.Release()
//
// It needs Linux or macOS. All processes of the machine that name the same directory share its locks, also from several
// containers, as long as these run on one kernel and the directory is mounted into each.
//
// # What it promises
//
//   - Turns come in the order in which they were asked for, over all processes.
//   - A process that ends takes its holds with it, and the next one goes on within milliseconds, after kill -9, too: the
//     kernel tells. There is no TTL and nothing to renew. So a process that is stopped (kill -STOP, a debugger) keeps what
//     it holds for as long as it is stopped. Programs that it has started keep nothing for it.
//   - Whoever waits is told when its turn has come, and reads nothing until then.
//   - Tokens rise for ever, whatever becomes of the processes. If the power fails, or the kernel does, the last seconds of
//     what was written may be lost, and tokens with it; no two hold then, since all processes of before are dead, but a
//     token may be given again. With [WithSync] each swap is on the disk before it is answered, and nothing is lost. That
//     takes two waits for the disk for a lock and an unlock.
//   - A full disk changes nothing of what stands: joins and leaves fail, and are tried again, until there is room. Lines
//     can be looked at meanwhile.
//
// What it does not promise: that a process with the rights to write to the directory plays by the rules. A process that
// is stopped in the few microseconds of a swap stops all others who want to swap one of the 1 in 64 registers that it has
// locked; they get the errors of their contexts until it goes on or is killed.
//
// # Where to put the directory
//
// On a disk of this machine, or on a tmpfs if the locks need not survive a restart. File systems that several machines
// may share (NFS, SMB, FUSE, 9p, Ceph, Lustre and the like) are refused: there flock may not reach from one machine to the
// next. If two machines share a directory all the same ([WithAnyFileSystem]), each that opens it notices that the other
// has, and all sessions end again and again: loud, but safe. Do not put it where files are cleaned away by their age.
//
// The directory is made if there is none, with the rights 0700. [WithGroup] makes it for all users of its group, with 2770;
// on Linux that is what an operator can do, too:
//
//	install -d -m 2770 -g app /var/lib/app/locks
//
// The file handles that it takes: one for each of the 64 directories of registers that the process has used, one for
// each topic that it listens to (a session is one, and so is each election that is observed), two for a session, and
// five.
//
// # What an operator sees
//
//	layout                       which layout it is; written when the directory was made, or the machine started
//	registers/17/line,orders,42  what stands in a line; its first line says version, checksum and lengths
//	notes/session,5f…/4711-3c…   a pipe by which process 4711 is told
//	kept/session,5f…             the process of a session has locked this file; it says which process that is
//
// Names are those of lines and sessions, with a comma for each slash and %xx for what is no small letter, digit, "-", "_" or
// ".". A name that would be longer than 140 bytes ends in a hash. What begins with a dot or a tilde is no register.
//
//	cat /var/lib/app/locks/kept/*          # who takes part
//	flock -n /var/lib/app/locks true       # succeeds if nobody does
//	flock -n /var/lib/app/locks rm -r /var/lib/app/locks   # the safe way to remove it
//
// Nothing in it may be removed by hand while somebody uses it. If it happens, or the directory is moved, or a backup put
// in its place, that is noticed at the next swap, and by those who do not swap within half a second: their sessions end,
// and holds with them (coord.ErrLost). Whoever comes to the new directory within that half second may enter beside them. A
// copy of a directory is a directory of its own: with the tokens of the first, and without its holds.
//
// What is left behind by processes that were killed is removed by those who come next.
package file
