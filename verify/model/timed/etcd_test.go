//go:build !race

package timed

import (
	"testing"
	"time"

	"github.com/turnwise/turnwise/coord/driver/deadlines"
)

func (e Etcd) with(change func(e *Etcd)) Etcd {
	change(&e)
	return e
}

// anyEtcd is etcd as it renews in most versions: without asking the others.
var anyEtcd = Etcd{TTL: 5, Leaders: 2, Rule: ShippedLease}

func TestARenewalWithAReadOnEtcd(t *testing.T) {
	for _, c := range []struct {
		name string
		e    Etcd
	}{
		{"a leader renews without asking the others", anyEtcd},
		{"three leaders", anyEtcd.with(func(e *Etcd) { e.TTL, e.Leaders = 3, 3 })},
		{"a leader asks the others first", anyEtcd.with(func(e *Etcd) { e.Confirms = true })},
		{"checkpoints", anyEtcd.with(func(e *Etcd) { e.Checkpoints = true })},
		{"checkpoints, and a leader asks the others first", anyEtcd.with(func(e *Etcd) { e.Confirms, e.Checkpoints = true, true })},
	} {
		t.Run(c.name, func(t *testing.T) { walked(t, c.e.Search) })
	}
}

// What no rule of a client survives; the documentation says so.
func TestWhatARenewalWithAReadDoesNotCover(t *testing.T) {
	t.Run("a checkpoint that cannot be undone is ignored", func(t *testing.T) {
		found(t, anyEtcd.with(func(e *Etcd) { e.Confirms, e.Checkpoints, e.KeepsThem = true, true, true }).Search)
	})
	t.Run("a proxy answers", func(t *testing.T) {
		found(t, anyEtcd.with(func(e *Etcd) { e.Proxy = true }).Search)
	})
}

// kept is what a rule that went by one time would say.
func (e *Etcd) kept(from time.Duration) time.Duration {
	ttl := time.Duration(e.TTL) * tick
	return from + ttl - ttl/50 - 50*time.Millisecond
}

// renewalAlone was the rule until it was found that two can hold by it.
func renewalAlone(e *Etcd, renewal, _ deadlines.Answer, _ Fresh) time.Duration {
	return e.kept(renewal.Sent)
}

func TestTheOldRuleOfEtcdIsFound(t *testing.T) {
	found(t, anyEtcd.with(func(e *Etcd) { e.Rule = renewalAlone }).Search)
	t.Run("except where a leader asks the others first", func(t *testing.T) {
		walked(t, anyEtcd.with(func(e *Etcd) { e.Rule, e.Confirms = renewalAlone, true }).Search)
	})
}

func TestPlantedRulesOfEtcdAreFound(t *testing.T) {
	type answer = deadlines.Answer
	rule := func(r LeaseRule) Etcd { return anyEtcd.with(func(e *Etcd) { e.Rule = r }) }
	for _, p := range []struct {
		name string
		e    Etcd
	}{
		{"terms are not compared", rule(func(e *Etcd, renewal, read answer, _ Fresh) time.Duration {
			return e.kept(min(renewal.Sent, read.Sent))
		})},
		{"terms are compared the wrong way round", rule(func(e *Etcd, renewal, read answer, _ Fresh) time.Duration {
			if read.Term < renewal.Term {
				return 0
			}
			return e.kept(min(renewal.Sent, read.Sent))
		})},
		{"counts from the later one", rule(func(e *Etcd, renewal, read answer, _ Fresh) time.Duration {
			if renewal.Term < read.Term {
				return 0
			}
			return e.kept(max(renewal.Sent, read.Sent))
		})},
		{"counts from the renewal", rule(func(e *Etcd, renewal, read answer, _ Fresh) time.Duration {
			if renewal.Term < read.Term || read.Sent <= now-time.Duration(e.TTL)*tick {
				return 0
			}
			return e.kept(renewal.Sent)
		})},
		{"counts from the read", rule(func(e *Etcd, renewal, read answer, _ Fresh) time.Duration {
			if renewal.Term < read.Term || renewal.Sent <= now-time.Duration(e.TTL)*tick {
				return 0
			}
			return e.kept(read.Sent)
		})},
		{"counts from the answer", rule(func(e *Etcd, renewal, read answer, fresh Fresh) time.Duration {
			if renewal.Term < read.Term || min(renewal.Sent, read.Sent) <= now-time.Duration(e.TTL)*tick {
				return 0
			}
			return e.kept(now)
		})},
		{"any read will do", anyEtcd.with(func(e *Etcd) { e.LocalReads = true })},
		{"a member fills in the term after the renewal", anyEtcd.with(func(e *Etcd) { e.FilledLate = true })},
		{"a new leader does not begin anew", anyEtcd.with(func(e *Etcd) { e.Proceeds = true })},
	} {
		t.Run(p.name, func(t *testing.T) { found(t, p.e.Search) })
	}
}
