package deadlines

import "time"

// Swapped returns until when a session on a store is sure whose renewal was sent at that time, once that has been swapped in:
// ttl - ttl/20 after. Nobody ends it before it has not been renewed for a ttl, by a clock that runs at the same rate but for
// one part in a hundred.
func Swapped(sent, ttl time.Duration) time.Duration { return sent + ttl - ttl/20 }

// Silence is longer than a living session that is not cut off is ever silent: it is renewed four times in a ttl. However old
// its last renewal seems to be, nobody ends a session before having seen it stand still for so long.
func Silence(ttl time.Duration) time.Duration { return ttl/4 + ttl/8 }

// Standstill is what somebody who waits has seen of a session that it finds at the same version each time.
type Standstill struct {
	First time.Duration // when the first look that showed this version was answered
	Since time.Duration // when the session was renewed, at the latest: see Samples
}

// Left returns how long it takes, from a look that was sent at that time and showed the same version again, until the session
// may be ended; zero: it may be ended now. It has to have stood still for a ttl, and for Silence before our eyes.
func (s Standstill) Left(looked, ttl time.Duration) time.Duration {
	return max(Silence(ttl)-(looked-s.First), ttl-(looked-s.Since), 0)
}

// Sample is what the store's clock said when we asked.
type Sample struct {
	Sent, Answered time.Duration
	Store          time.Duration // by the store's clock, since any moment that is the same for all samples
}

// Samples are one's own readings of the store's clock. They tell when a session was renewed without anybody's wall clock: the
// store's clock only says which of them it had taken already, and the time since then is measured by one's own clock.
//
// The store's clock may be set. Between two samples it should have gone on as ours did. If it did not, by more than 3 %, it
// was set, and the samples before that are of no use. What two samples cannot tell is assumed to have happened: that the
// clock was set back by as much as their answers took, and by those 3 % and 2 % for the rates of both clocks. A clock that is
// set, and set back by as much between two samples, is not found out. So samples that are further apart than half a TTL are
// of no use either. Take one each quarter of the TTL: each renewal of one's own session brings one.
//
// The zero Samples has none.
type Samples struct{ all []Sample } // in order

// Add takes a sample. Those that are older than keep are dropped.
func (s *Samples) Add(n Sample, keep time.Duration) {
	old := 0
	for old < len(s.all) && s.all[old].Answered < n.Sent-keep {
		old++
	}
	s.all = append(s.all[:0], append(s.all[old:], n)...)
}

// compare returns by how much the store's clock may have been set between two samples unnoticed. set says that it was set by
// more than that.
func (s Sample) compare(n Sample) (unnoticed time.Duration, set bool) {
	least, most, moved := n.Sent-s.Answered, n.Answered-s.Sent, n.Store-s.Store
	tolerance := most * 3 / 100
	return most - least + most*5/100, moved < least-tolerance || moved > most+tolerance
}

// Renewed returns when a session with that TTL was renewed, at the latest, that a look has found; look is the sample that came
// with it. stamp is when the store took the renewal, by its clock. If the samples do not tell, that is when the look was
// answered.
func (s *Samples) Renewed(look Sample, stamp, ttl time.Duration) (since time.Duration) {
	since = look.Answered
	next, unnoticed := look, time.Duration(0)
	for i := len(s.all) - 1; i >= 0; i-- {
		was := s.all[i]
		more, set := was.compare(next)
		if set || next.Answered-was.Sent > ttl/2 || was.Store <= stamp {
			break
		}
		unnoticed += more
		since, next = min(since, was.Answered+unnoticed), was
	}
	return since
}

// LooksDead reports whether a session may be dead, to somebody who cannot look on for long: by the store's clock or by the wall
// clocks it was not renewed for a ttl, or the wall clocks contradict each other. He then leaves a suspicion in the store, for
// the next one that comes. store is negative if the store has no clock.
func LooksDead(store, walls, ttl time.Duration) bool { return max(store, walls) >= ttl || walls < 0 }

// Convict reports whether a session that looks dead may be ended by somebody who finds a suspicion of the same version, which
// has stood there for that long by the store's clock. By that and by the wall clocks it was not renewed for a ttl. If the store's
// clock was set forward meanwhile, this is too early.
func Convict(store, walls, suspected, ttl time.Duration) bool {
	return min(store, walls) >= ttl && suspected >= Silence(ttl)
}
