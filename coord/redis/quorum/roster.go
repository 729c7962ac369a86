package quorum

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// A roster says which servers are a group's. Each counts by its memory, so one that has forgotten its votes is another server.
// Each term of a group has one roster, and the next one differs by one server. A vote says for which term it is, and only votes
// of one term add up. So what becomes of servers that are no longer listed, or of processes that have not heard, does not matter.
type roster struct {
	group string // 16 digits
	term  uint64
	seats []listed
}

// listed is one server on a roster.
type listed struct {
	memory  string
	since   uint64 // the term in which it was listed. It votes only in this and later ones, and not before it was filled.
	address string // by which it was named then
	instead string // of the last to be listed: in whose place, "<memory>.<since>", or nobody; empty: that is not known
}

// nobody says that a server came in addition.
const nobody = "nobody"

const (
	groupSize  = 16
	termSize   = 8
	minServers = 3
	maxServers = 9
	maxAddress = 200
)

func (r *roster) majority() int { return len(r.seats)/2 + 1 }

// stamp is what an acceptor must say of itself for its vote to count.
func (r *roster) stamp() string { return r.group + digits(r.term) }

// digits is a term as it stands at the servers.
func digits(term uint64) string { return fmt.Sprintf("%0*d", termSize, term) }

// seatOf returns what the roster says of the server with a memory.
func (r *roster) seatOf(memory string) (l listed, ok bool) {
	for _, l := range r.seats {
		if l.memory == memory {
			return l, true
		}
	}
	return l, false
}

// seatAt returns what the roster says of the server that was named by an address.
func (r *roster) seatAt(address string) (l listed, ok bool) {
	for _, l := range r.seats {
		if l.address == cut(address) {
			return l, true
		}
	}
	return l, false
}

// isOf reports whether another roster has the same servers.
func (r *roster) isOf(other *roster) bool {
	if other == nil || len(other.seats) != len(r.seats) {
		return false
	}
	for _, l := range r.seats {
		if _, has := other.seatOf(l.memory); !has {
			return false
		}
	}
	return true
}

// next returns the roster of the next term, with one server more, or with another in the place of one.
func (r *roster) next(memory, address, replaces string) *roster {
	n := &roster{group: r.group, term: r.term + 1}
	was := nobody
	for _, l := range r.seats {
		if l.instead = ""; l.memory != replaces {
			n.seats = append(n.seats, l)
		} else {
			was = fmt.Sprintf("%s.%d", l.memory, l.since)
		}
	}
	n.seats = append(n.seats, listed{memory, n.term, cut(address), was})
	return n
}

// last returns the server that was listed last, if it is known how the roster before differs: in that alone.
func (r *roster) last() (l listed, ok bool) {
	for _, l := range r.seats {
		if l.since == r.term && l.instead != "" {
			return l, true
		}
	}
	return l, false
}

// before returns the roster before, as far as it says who was on it: nil if that is not known.
func (r *roster) before() *roster {
	last, ok := r.last()
	if !ok {
		return nil
	}
	b := &roster{group: r.group}
	for _, l := range r.seats {
		if l.memory != last.memory {
			b.seats = append(b.seats, l)
		}
	}
	if last.instead == nobody {
		return b
	}
	memory, since, _ := strings.Cut(last.instead, ".")
	term, err := strconv.ParseUint(since, 10, 64)
	if err != nil {
		return nil
	}
	b.seats = append(b.seats, listed{memory: memory, since: term})
	return b
}

// in returns the roster as one of a later term, for who has decided on another meanwhile.
func (r *roster) in(term uint64) *roster {
	n := &roster{group: r.group, term: term}
	for _, l := range r.seats {
		if l.since == r.term {
			l.since = term
		}
		n.seats = append(n.seats, l)
	}
	return n
}

// adds reports whether all servers of another roster are on this one, and one more is.
func (r *roster) adds(to *roster) bool {
	for _, l := range to.seats {
		if _, has := r.seatOf(l.memory); !has {
			return false
		}
	}
	return len(r.seats) == len(to.seats)+1
}

func (r *roster) addresses() string {
	var all []string
	for _, l := range r.seats {
		all = append(all, l.address)
	}
	return strings.Join(all, " ")
}

func cut(address string) string { return address[:min(len(address), maxAddress)] }

// insteadOf comes between the address of the server that was listed last and in whose place it is. Who does not know of that takes it for
// a part of the address.
const insteadOf = " instead of "

// String is what stands under the member key: "<term, 8 digits> <memory>.<term>@<address>,…".
func (r *roster) String() string {
	var seats []string
	for _, l := range r.seats {
		address := l.address
		if l.instead != "" {
			address += insteadOf + l.instead
		}
		seats = append(seats, fmt.Sprintf("%s.%d@%s", l.memory, l.since, url.QueryEscape(address)))
	}
	return digits(r.term) + " " + strings.Join(seats, ",")
}

// parseRoster returns nil if it is none.
func parseRoster(group, term, seats string) *roster {
	r := &roster{group: group}
	var err error
	if r.term, err = strconv.ParseUint(term, 10, 64); err != nil || len(term) != termSize || len(group) != groupSize {
		return nil
	}
	for _, text := range strings.Split(seats, ",") {
		memory, rest, _ := strings.Cut(text, ".")
		since, address, found := strings.Cut(rest, "@")
		var l listed
		l.memory = memory
		if l.since, err = strconv.ParseUint(since, 10, 64); err != nil || !found || len(r.seats) == maxServers {
			return nil
		}
		if address, err = url.QueryUnescape(address); err != nil {
			return nil
		}
		if l.address, l.instead, _ = strings.Cut(address, insteadOf); l.since != r.term {
			l.instead = "" // who did not know of that has left it there
		}
		r.seats = append(r.seats, l)
	}
	if len(r.seats) < minServers {
		return nil
	}
	return r
}
