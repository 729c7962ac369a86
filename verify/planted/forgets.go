package planted

import "strings"

// forgets are the bugs about stores that forget.
var forgets = []Bug{
	one("stores: the longest TTL stands where it is forgotten with all else",
		"coord/register/memory.go", `return !kernel && store.Strength().Restart != driver.Forgets`, `return false && !kernel && driver.Forgets > 0`,
		testsRegister("TestANewcomerWaitsForTheLongestTTLThatAnybodyMayHave")),
	one("stores: whoever reckons with another longest TTL is let in",
		"coord/register/memory.go", `case d.bounded:`, `case d.bounded && false:`, testsRegister("TestWhoeverReckonsWithAnotherLongestTTLIsRefused")),
	one("stores: a TTL that nobody reckons with is taken",
		"coord/register/memory.go", `if ttl <= longest ||`, `if ttl > 0 ||`, testsRegister("TestATTLThatNobodyReckonsWithIsRefused")),
	one("memcached: a mark has its date before it stands",
		"coord/memcached/memory.go", `add(s.markKey(), encodeMark(undated,`, `add(s.markKey(), encodeMark(now+2,`,
		testsForgetful("memcached", "TestAMemoryIsNoOlderThanTheServerWasEmptied/the_mark")),
	one("memcached: a connection is used before it is known where it leads",
		"coord/memcached/memory.go", `	if c.known == known {
`, `	if c.known == known || true {
`, testsForgetful("memcached", "TestAClientThatWasAwayDuringARestartReplacesNothing")),
}

// testsForgetful is a test of a store's own, in the root module.
func testsForgetful(store, name string) Tests {
	return Tests{Module: ".", Package: "./coord/" + store, Run: "^" + strings.ReplaceAll(name, "/", "$/^") + "$"}
}
