// Package planted switches single safeguards off, to show that tests notice. In a normal build nothing can be
// switched: Is is constantly false, and the compiler drops what it guards.
package planted

// Bug names a safeguard that is missing.
type Bug string

const (
	DeadlineFromReceipt Bug = "the deadline counts from the receipt of a renewal"
	DeadlineIgnored     Bug = "holds do not end at the deadline"
	GrantedPastDeadline Bug = "a turn is given though the deadline has passed"
	JoinNotSettled      Bug = "a join whose answer was lost is forgotten"
	LateJoinNotFenced   Bug = "a lost join may be applied after it was not found"
	LeaveNotRetried     Bug = "a departure whose answer was lost is not repeated"
	CancelledNotCleaned Bug = "who gives up leaves the node behind"
	MarkTrustedAlone    Bug = "a change of the node ahead is taken for its owner's leaving"
	EveryHolderMarks    Bug = "whoever had somebody ahead when granted marks, too"
	OwnNodeNotPolled    Bug = "one enters though the own node has been removed"
	ArmedUnread         Bug = "a watch is set without reading what it is set on"
	ReconnectUnheard    Bug = "watches are not set anew after a reconnect"
	LookOlderThanJoin   Bug = "a look may be older than the own join"
	HolderUnwatched     Bug = "nobody watches over a held node"
	LineJumped          Bug = "a waiter enters when anybody ahead has left"
	RemovalDoubted      Bug = "a holder told that its node is gone believes until it has asked"
	StalledDeaf         Bug = "a holder whose question stalls does not hear that its node is gone"
	GrantedSilently     Bug = "who has one of many permits after a wait does not say so"
)

// All lists the bugs there are.
var All = []Bug{
	DeadlineFromReceipt, DeadlineIgnored, GrantedPastDeadline, JoinNotSettled, LateJoinNotFenced, LeaveNotRetried,
	CancelledNotCleaned, MarkTrustedAlone, EveryHolderMarks, OwnNodeNotPolled, ArmedUnread,
	ReconnectUnheard, LookOlderThanJoin, HolderUnwatched, LineJumped, RemovalDoubted, StalledDeaf,
	GrantedSilently,
}
