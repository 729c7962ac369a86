package sharedfile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/turnwise/turnwise/coord"
	"github.com/turnwise/turnwise/fence"
)

// A name in the directory of versions is one of these, with the stamp of the writer that made it:
//
//	0000000000.0000000000000001280.000000        a claim: the version that was the newest when its writer began
//	0000000000.0000000000000001280.000000.none   a claim when there was no version yet
//	0000000000.0000000000000001280.000001        a version
//	0000000000.0000000000000001280.~3f9a…        a draft: what is being written, or replaces the path
//
// All of them say that a writer with this stamp has begun. Readers read the greatest one that is not a draft.
type name struct {
	stamp fence.Stamp
	n     uint64 // of versions, from 1
	kind  kind
}

type kind int

const (
	version kind = iota
	claim
	empty // a claim of nothing
	draft
)

func (n name) String() string {
	s := fmt.Sprintf("%010d.%019d.", n.stamp.Epoch, n.stamp.Token)
	switch n.kind {
	case claim:
		return s + "000000"
	case empty:
		return s + "000000.none"
	case draft:
		return fmt.Sprintf("%s~%016x", s, n.n)
	}
	return fmt.Sprintf("%s%06d", s, n.n)
}

// parse reports false for names that are not ours.
func parse(text string) (n name, ours bool) {
	parts := strings.SplitN(text, ".", 3)
	if len(parts) != 3 {
		return name{}, false
	}
	epoch, err1 := strconv.ParseUint(parts[0], 10, 32)
	token, err2 := strconv.ParseInt(parts[1], 10, 64)
	if err1 != nil || err2 != nil || token <= 0 {
		return name{}, false
	}
	n.stamp = fence.Stamp{Epoch: uint32(epoch), Token: coord.Token(token)}
	var err error
	switch last := parts[2]; {
	case last == "000000":
		n.kind = claim
	case last == "000000.none":
		n.kind = empty
	case strings.HasPrefix(last, "~"):
		n.kind = draft
		n.n, err = strconv.ParseUint(last[1:], 16, 64)
	default:
		n.n, err = strconv.ParseUint(last, 10, 64)
	}
	return n, err == nil && n.n < math.MaxUint64 && n.String() == text
}

// compare puts names into the order in which they were begun, and drafts into any order.
func compare(a, b name) int { return cmp.Or(a.stamp.Compare(b.stamp), cmp.Compare(a.n, b.n)) }

// names are what is in the directory, as far as it is ours.
type names struct {
	readable []name // versions and claims, the newest first
	drafts   []name
}

func sorted(texts []string) (all names) {
	for _, text := range texts {
		n, ours := parse(text)
		switch {
		case !ours:
		case n.kind == draft:
			all.drafts = append(all.drafts, n)
		default:
			all.readable = append(all.readable, n)
		}
	}
	slices.SortFunc(all.readable, func(a, b name) int { return compare(b, a) })
	slices.SortFunc(all.drafts, compare)
	return all
}

// newest is what readers read. It reports false if nobody has begun to write.
func (a names) newest() (name, bool) {
	if len(a.readable) == 0 {
		return name{}, false
	}
	return a.readable[0], true
}

// last is the greatest stamp of all who have begun.
func (a names) last() (s fence.Stamp) {
	if n, ok := a.newest(); ok {
		s = n.stamp
	}
	for _, d := range a.drafts {
		if d.stamp.Compare(s) > 0 {
			s = d.stamp
		}
	}
	return s
}

// same reports whether two lists have the same names.
func (a names) same(b names) bool {
	return slices.Equal(a.readable, b.readable) && slices.Equal(a.drafts, b.drafts)
}
