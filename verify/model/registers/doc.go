// Package registers walks every interleaving of the protocol by which coord/register keeps a line in a register that can be
// compared and swapped. Each of a few processes joins the line, waits, holds and leaves. Meanwhile a swap is applied late,
// or its answer is lost; notes are late or lost; a process gives up, loses its session, or is removed by an operator; an
// empty line is deleted and created again.
//
// The judges know nothing of the protocol: two processes must not hold at once, a token must be greater than all before it,
// a process that could go must be woken, and none that has left may still stand in the line.
//
// To show that the walk can find what it looks for, each of these is planted and must be found:
//
//	nothing is written after a swap whose outcome is open   the node of a process that has left stays
//	a version that counts                                   a process takes another's swap for its own
//	what was told of a first try counts for the next one    two holders
//	notes are sent before the swap                          a lost wake-up
//	a session is ended before its own deadline              two holders
//	who is removed is not told                              it waits for ever
//	who is next is not told                                 a lost wake-up
//	a line that is deleted leaves the epoch as it is        a token comes again
//	an empty line is deleted at once                        a node stays, or a token comes again
package registers
