// Chaos runs the recipes on real servers while servers, workers and the network between them fail, and judges the
// outcome by the service's own history.
//
//	go run ./chaos -service etcd -members 3 -length 10m
//	go run ./chaos -service zk -members 3 -session 10s -only apart
//	go run ./chaos -service redis -peers
//
// Workers are separate processes. Each competes for every recipe's line again and again, through proxies that only it
// uses, and records, by the machine's monotonic clock, what it wants, what it is given and what it believes. Faults come one
// at a time, in an order and for a time that the seed decides, and each is healed. The judge then compares the records with
// what the service had: etcd's watch from the first revision on, or ZooKeeper's transaction log. Files, Redis and databases
// keep no such history: there the judge goes by the workers' beliefs, and by what is left at the end. On all services, the
// workers' traces are audited as well (coord/trace).
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"time"
)

func main() {
	if text := os.Getenv(jobVariable); text != "" {
		work(text)
		return
	}
	p := plan{logf: log.Printf}
	flag.StringVar(&p.service, "service", "etcd", "etcd, zk, file, redis, forgetful (a Redis that writes nothing down), quorum (three Redis), postgres, mysql, memcached or nats")
	flag.IntVar(&p.members, "members", 1, "how many servers")
	flag.DurationVar(&p.length, "length", 90*time.Second, "for how long faults come")
	flag.Uint64Var(&p.seed, "seed", uint64(time.Now().UnixNano()), "decides which faults come when")
	flag.BoolVar(&p.peers, "peers", false, "run what people lock with there besides, in the same faults; there is nothing for memcached and NATS")
	flag.IntVar(&p.workers, "workers", 4, "how many worker processes")
	flag.DurationVar(&p.session, "session", 2*time.Second, "the sessions' time to live")
	flag.StringVar(&p.only, "only", "", "only faults whose names contain this")
	flag.StringVar(&p.dir, "dir", "", "where logs and data are kept; a temporary folder unless told")
	flag.Parse()
	if p.dir == "" {
		dir, err := os.MkdirTemp("", "chaos-")
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(dir)
		p.dir = dir
	} else if err := os.MkdirAll(p.dir, 0o755); err != nil {
		log.Fatal(err)
	}
	p.peers = p.peers && p.hasPeers()
	log.Printf("%s, %d workers, for %v, seed %d", p.service, p.workers, p.length, p.seed)
	v, s, err := run(p)
	if err != nil {
		log.Fatal(err)
	}
	v.write(os.Stdout, s.recoveries)
	failures := v.failures(s.recoveries)
	for _, f := range failures {
		fmt.Println(f)
	}
	if len(failures) > 0 {
		os.Exit(1)
	}
}
