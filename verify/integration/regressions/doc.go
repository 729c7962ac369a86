// Package regressions plays what went wrong in other libraries, named after the reports, on real servers: each is a
// thing that locks are known to get wrong, and that ours must not. Where a report is about one service alone its
// scenario is played on the other as well, since the mistake is possible there too.
//
// The counter's end (ZOOKEEPER-3249) needs a doctored snapshot and has its tests beside the driver, in coord/zk; a
// deletion by key alone (etcd #22082) has another one in coord/etcd, with the late request itself in hand.
package regressions
