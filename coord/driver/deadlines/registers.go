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
	Since time.Duration // when the session was renewed, at the latest: see ByClocks and Samples
}

// Left returns how long it takes, from a look that was sent at that time and showed the same version again, until the session
// may be ended; zero: it may be ended now. It has to have stood still for a ttl, and for Silence before our eyes.
func (s Standstill) Left(looked, ttl time.Duration) time.Duration {
	return max(Silence(ttl)-(looked-s.First), ttl-(looked-s.Since), 0)
}

// ByClocks returns when a session was renewed, at the latest, as far as clocks tell: its age by the store's clock, and the
// difference between our wall clock and that of its owner, which wrote down the time. Whichever says less is believed. So
// this is wrong only if both are, as after a step of the one clock of a machine that is store and client.
func ByClocks(answered, store, walls time.Duration) time.Duration {
	return answered - max(min(store, walls), 0)
}

// Sample is what the store's clock said when we asked.
type Sample struct {
	Sent, Answered time.Duration
	Store          time.Duration // by the store's clock, since any moment, which is the same for all samples
}

// Samples are one's own readings of the store's clock. They tell when a session was renewed without anybody's wall clock: the
// store's clock only says which of them it had taken already, and the time since then is measured by one's own clock. A store
// whose clock was set is found out, since two samples then differ by more or less than the time between them. The samples
// before that are forgotten.
//
// A sample that took longer than a 64th of the TTL to get is not kept. Two that are further apart than half a TTL do not tell
// whether the clock was set in between, nor does a clock that is set and set back between two. So sample each quarter of the
// TTL: each renewal of one's own session may bring one.
type Samples struct {
	ttl time.Duration
	all []Sample // in order
}

// NewSamples returns samples for sessions with that TTL.
func NewSamples(ttl time.Duration) *Samples { return &Samples{ttl: ttl} }

// Add takes a sample. They come in the order in which they were sent, one after another.
func (s *Samples) Add(n Sample) {
	if n.Answered-n.Sent > s.ttl/64 {
		return
	}
	if last := len(s.all) - 1; last >= 0 && !s.all[last].agrees(n, s.ttl) {
		s.all = s.all[:0]
	}
	old := 0
	for old < len(s.all) && s.all[old].Answered < n.Sent-2*s.ttl {
		old++
	}
	s.all = append(s.all[:0], s.all[old:]...)
	if n2 := len(s.all); n2 > 1 && n.Sent-s.all[n2-2].Sent < s.ttl/16 {
		s.all[n2-1] = n
		return
	}
	s.all = append(s.all, n)
}

// agrees reports whether the store's clock went on between two samples as ours did, but for 3 %.
func (s Sample) agrees(n Sample, ttl time.Duration) bool {
	least, most, moved := n.Sent-s.Answered, n.Answered-s.Sent, n.Store-s.Store
	return most <= ttl/2 && moved >= least-least*3/100 && moved <= most+most*3/100
}

// Renewed returns when a session was renewed, at the latest, that a look has found, of which sample is the one that the look
// itself has brought. stamp is when the store took the renewal, by its clock. If the look's sample cannot be used, that is
// when the look was answered.
func (s *Samples) Renewed(look Sample, stamp time.Duration) (since time.Duration) {
	since = look.Answered
	next := look
	for i := len(s.all) - 1; i >= 0; i-- {
		was := s.all[i]
		if was == look {
			continue
		}
		if look.Answered-look.Sent > s.ttl/64 || !was.agrees(next, s.ttl) || was.Store <= stamp {
			break
		}
		since, next = was.Answered, was
	}
	return since
}

// Suspect reports whether a session looks dead to somebody who does not wait, and so cannot look on: the clocks say that it
// was not renewed for a ttl (see ByClocks, by its age). It then leaves a suspicion in the store, for the next one that tries.
func Suspect(store, walls, ttl time.Duration) bool { return min(store, walls) >= ttl }

// Convict reports whether a session that looks dead may be ended by somebody who finds a suspicion of the same version, which
// has stood there for that long by the store's clock. If that clock was set forward meanwhile, this is too early.
func Convict(store, walls, suspected, ttl time.Duration) bool {
	return Suspect(store, walls, ttl) && suspected >= Silence(ttl)
}
