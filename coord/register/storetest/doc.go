// Package storetest is the conformance suite that every register.Store passes.
//
// The author of a store fills in a [System] and calls [Run] from a test. [Service] turns the same System into what
// drivertest needs, so that the driver and the recipes are tried on the store as well, over a [Link] that makes faults:
//
//	func system(t testing.TB) *storetest.System {
//		server := startServer(t)
//		return &storetest.System{
//			Open: func(t testing.TB) register.Store {
//				store, err := Open(context.Background(), server.Address)
//				if err != nil {
//					t.Fatal(err)
//				}
//				t.Cleanup(func() { _ = store.Close() })
//				return store
//			},
//			Ages: true, Clock: true,
//			Restart: server.Restart,
//			Freeze:  server.Freeze,
//		}
//	}
//
//	func TestStore(t *testing.T)   { storetest.Run(t, system) }
//	func TestDriver(t *testing.T)  { drivertest.Run(t, service) }
//	func TestRecipes(t *testing.T) { drivertest.RunRecipes(t, service) }
//
//	func service(t testing.TB) *drivertest.Service { return storetest.Service(t, system(t)) }
//
// A store that is a register.Presence needs a TestMain as well, since the suite kills a process that keeps a key: see [Main].
//
// There is a subtest for each thing that a Store owes, and below it a scenario for each way of showing it. A scenario that
// needs what the System leaves out is skipped, and says so. Run the suite with -v once to see that nothing is skipped that
// the system has.
//
// Some things no suite can show from outside, and they stay with the author: that a swap without notes costs no more than
// the write, that a reservation helps a client that is far away, that nothing is lost when the machine loses its power, and
// that bad input (a wrong password, a table of another layout) gives one clear error that wraps driver.ErrDenied.
//
// The store of internal/memory is the simplest that does all of it, and a place to start from. docs/writing-a-store.md has a smaller
// one, and says more.
//
// With TURNWISE_PATIENCE=4s in the environment the suite waits 4 s, and not 20 s, for what must happen however busy the
// machine is. Set it for a store that is meant to fail. Without it a scenario is played again if it fails while the machine
// gives this process no time for 100 ms at once.
package storetest
