// Package regressions plays on real servers what went wrong in other libraries. The scenarios are named after the reports:
// each is something that locks are known to get wrong, and that ours must not. If a report is about one service alone, its
// scenario is played on the other as well, since the mistake is possible there too.
//
// The counter's end (ZOOKEEPER-3249) needs a doctored snapshot and has its tests beside the driver, in coord/zk; a
// deletion by key alone (etcd #22082) also has a test in coord/etcd, which makes the late request itself.
package regressions
