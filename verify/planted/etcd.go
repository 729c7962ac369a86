package planted

import (
	"regexp"
	"strings"
)

// etcd are the bugs of the driver for etcd.
var etcd = []Bug{
	one("etcd: the deadline counts from the receipt of a renewal",
		"coord/etcd/session.go", "s.renewed(sent)\n\t\t\tpause", "s.renewed(sent.Add(time.Since(sent)))\n\t\t\tpause", conformsEtcd("07", "everything takes long")),
	one("etcd: a departure goes by the key alone",
		"coord/etcd/look.go", `clientv3.CreateRevision(key), "=", created)`, `clientv3.CreateRevision(key), ">", 0)`,
		conformsEtcd("06", "a second release does not touch the newer node")),
	one("etcd: a lost join may be applied after it was not found",
		"coord/etcd/join.go", `j.moveEpoch(ctx, j.compared)`, `error(nil)`, conformsEtcd("01", "cancelled before it is applied late")),
}

// conformsEtcd runs a scenario of the conformance suite, below the number of its obligation.
func conformsEtcd(obligation, scenario string) Tests {
	return Tests{Module: "coord/etcd", Package: ".", Run: conformance(obligation, scenario)}
}

func conformance(obligation, scenario string) string {
	return "^TestConformance$/^" + obligation + "/^" + regexp.QuoteMeta(strings.ReplaceAll(scenario, " ", "_")) + "$"
}
