package timed

// chain is a rule like the one that ships, with safeguards left out.
type chain struct {
	gaps     []int // gaps[i]: for how many ticks link i was answered at least when link i+1 was sent
	noCommit bool  // no commit is needed
	pings    bool  // an answer of the server itself is a link, too
	answers  bool  // counts from the first link's answer
	second   bool  // counts from the second link
	together bool  // a link may have been under way when the one before it was answered
	deaf     bool  // links do not count, only connections
}

func (r chain) Connected(_ *ZooKeeper, k *Known, asked uint8) {
	*k = Known{touched: min(k.touched, asked), commit: k.commit}
}

func (r chain) Answered(_ *ZooKeeper, k *Known, e Exchange) {
	if e.Kind == Write {
		k.commit = min(k.commit, e.Sent)
	}
	if e.Kind == Ping && !r.pings || r.deaf {
		return
	}
	later, limit := exchange{sent: e.Sent}, e.Seen
	if r.together {
		limit = k.n
	}
	found := true
	for i := len(r.gaps) - 1; i >= 0 && found; i-- {
		if r.second && i == 0 && len(r.gaps) > 1 {
			before := later
			later, _, found = r.before(k, later, limit, r.gaps[i])
			if found {
				later = before
			}
			break
		}
		later, limit, found = r.before(k, later, limit, r.gaps[i])
	}
	if found && r.answers {
		k.touched = min(k.touched, later.answered)
	} else if found {
		k.touched = min(k.touched, later.sent)
	}
	k.add(e)
}

// before returns the latest of the first few exchanges that was answered so long before one was sent.
func (r chain) before(k *Known, later exchange, limit uint8, gap int) (exchange, uint8, bool) {
	for i := int(limit) - 1; i >= 0; i-- {
		if x := k.exchanges[i]; int(x.answered)-int(later.sent) >= gap || r.together && gap == 0 {
			return x, uint8(i), true
		}
	}
	return exchange{}, 0, false
}

func (r chain) Left(z *ZooKeeper, k *Known) int {
	if r.noCommit {
		return z.Timeout - int(k.touched)
	}
	return z.Timeout - int(max(k.touched, k.commit))
}

func (r chain) Tidy(z *ZooKeeper, k *Known, _ uint8) int {
	if r.noCommit {
		k.commit = 0
	}
	n := 0
	for n < int(k.n) && k.exchanges[n].sent >= k.touched && (!r.answers || k.exchanges[n].answered >= k.touched) {
		n++
	}
	return n
}

// hearsay was the rule until it was found that two can hold by it. A commit vouched for 54 % of the timeout, or less if
// little had been heard a quarter of the timeout before it was sent. touched is how much less than a whole timeout is left,
// and commit when something was sent that the leader was taken to know of.
type hearsay struct{}

func (hearsay) Connected(z *ZooKeeper, k *Known, asked uint8) {
	asked = min(asked+uint8(z.Timeout/10), uint8(z.Timeout))
	*k = Known{touched: k.touched, commit: asked}
	if k.touched == 0 {
		k.touched = uint8(z.Timeout - (54*z.Timeout+99)/100)
	}
}

func (hearsay) Answered(z *ZooKeeper, k *Known, e Exchange) {
	k.add(e)
	if e.Kind != Write {
		return
	}
	known := k.commit
	for _, x := range k.exchanges[:k.n] {
		if int(x.answered) >= int(e.Sent)+(z.Timeout+3)/4 {
			known = min(known, x.sent)
		}
	}
	kept := min(54*z.Timeout, 99*z.Timeout-100*(int(known)-int(e.Sent)))
	if left := (kept - 100*int(e.Sent) + 99) / 100; left > 0 {
		k.touched = min(k.touched, uint8(z.Timeout-left))
	}
}

func (hearsay) Left(z *ZooKeeper, k *Known) int { return z.Timeout - int(k.touched) }

func (hearsay) Tidy(z *ZooKeeper, k *Known, earliest uint8) int {
	n := 0
	for n < int(k.n) && int(k.exchanges[n].answered) >= int(earliest)+(z.Timeout+3)/4 {
		k.commit = min(k.commit, k.exchanges[n].sent)
		n++
	}
	return n
}
