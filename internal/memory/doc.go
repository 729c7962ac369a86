// Package memory is a coordination service within the process, and the driver for it. coord/mem is its public face;
// simulation and conformance tests use it directly, since here they can come between driver and service.
//
// Service is the far side: sessions with a TTL, numbered nodes, watches, replicas that may lag. Driver is the near
// side, written as it would be for a real service: every request may be lost before or after it is applied. The Network
// between them is where tests interfere.
//
// It comes in two profiles, since the two real services differ in what they promise:
//
//	ZooKeeper  a server that is cut off from the others renews sessions by itself for a while, which counts for nothing;
//	           requests and events of a session keep their order; a look may be stale, but never older than what
//	           the session did itself; a watch fires once; the holder's mark is a change followed by a deletion
//	Etcd       requests may be reordered, and applied long after they were reported lost; a look is exact; a holder's
//	           mark is found by asking for it
//
// The marks are older than the drivers' way of handing a turn on: those trust nothing that is written, and go by what a
// session knows or look (see coord/zk and coord/etcd). To the engine, which these profiles are there to test, both are the
// same: an Await that returns HandedOn. Here nobody but the service makes a mark, so none can be forged; that the drivers are
// right not to ask for one is shown on real servers.
package memory
