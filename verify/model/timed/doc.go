// Package timed walks through every schedule in which a session may be kept or lost, and asks for how long its holder believes
// in it. What the holder believes is said by the code that ships (coord/driver/deadlines), which drivers call in the same way.
//
// Time goes in ticks. All times in a state are ages, and none is older than a timeout, so there are only so many states: a walk
// that gets to its end has seen schedules of any length. Bounded are the requests under way and the messages in a queue.
// Anything may take any time: a message, a server that stands still, a vote for a new leader.
//
// A session on a store is simpler, since nothing moves its end but the swap itself: there a test goes through millions of
// schedules one by one, with clocks that are set, slowed down and sped up.
//
// There is one judge: nobody may believe at a time at which the service may let the next one in.
//
// To show that the walks can find what they look for, the rules that shipped before are walked as well, and rules with a
// safeguard left out. Two hold by each of them. Two also hold where the rules that ship do not claim to help; the tests name
// these cases, and docs/guarantees.md says them.
package timed
