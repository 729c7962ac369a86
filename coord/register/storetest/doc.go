// Package storetest is the conformance suite that every register.Store passes.
//
// The author of a store fills in a [System] and calls [Run] from a test:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t testing.TB) *storetest.System {
//			server := startServer(t)
//			return &storetest.System{
//				Open: func(t testing.TB) register.Store {
//					store, err := Open(t.Context(), server.Address)
//					if err != nil {
//						t.Fatal(err)
//					}
//					t.Cleanup(func() { _ = store.Close() })
//					return store
//				},
//				Clock:   true,
//				Restart: server.Restart,
//			}
//		})
//	}
//
// There is a subtest for each thing that a Store owes, and below it a scenario for each way of showing it. What the
// System leaves out is skipped, and the scenario says so: run it with -v once, and see that nothing is skipped that the
// system has.
//
// With TURNWISE_PATIENCE=4s in the environment the suite waits so long, and not for 20 s, for what must happen however
// busy the machine is: for a store that is to fail.
package storetest
