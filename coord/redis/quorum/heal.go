package quorum

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/turnwise/turnwise/coord/driver/driverkit"
	"github.com/turnwise/turnwise/coord/register"
)

// Heal gives all servers that have forgotten their votes, and that can be reached, what the others know, so that they vote
// again. Call it when the log says that a server does not vote: after it was emptied, or restarted without having kept all
// that it answered. It takes a little more than 10 s, and a majority of all servers must vote meanwhile. It does no harm to
// call it for nothing, or from several processes.
//
// The wait is what makes it safe: a promise that a server gave before it forgot belongs to a round that is over by then, and
// others know of it if it counted.
func (q *Store) Heal(ctx context.Context) error {
	if err := q.heal(ctx); err != nil {
		return fmt.Errorf("turnwise: %s: heal: %w", pkg, err)
	}
	return nil
}

func (q *Store) heal(ctx context.Context) error {
	all, err := q.survey(ctx, func([]member) bool { return false })
	if err != nil {
		return err
	}
	group := q.groupOf(all)
	if group == "" {
		// Nobody knows all that counted, so nothing can be given back.
		return errors.New("no majority votes: if the others have forgotten, too, empty all of them, and the next to open them founds the group anew")
	}
	if group != *q.group.Load() {
		return fmt.Errorf("%w: the group was founded anew", register.ErrForgot)
	}
	q.join(group, all)
	nonce := register.NewVersion()
	healing := "h " + hex.EncodeToString(nonce[:])
	ill, err := admit(ctx, all, healing)
	if err != nil || len(ill) == 0 {
		return err
	}
	if err := driverkit.Sleep(ctx, q.healAfter); err != nil {
		return err
	}
	dumps, err := q.dump(ctx, "") // those that are ill do not answer it
	if err != nil {
		return err
	}
	union := unite(dumps)
	var healed sync.WaitGroup
	errs := make([]error, len(ill))
	for i, m := range ill {
		healed.Go(func() { errs[i] = q.healOne(ctx, m, healing, group, union) })
	}
	healed.Wait()
	return errors.Join(errs...)
}

// admit marks those that answer and do not vote as being healed by us, and returns them. From then on they promise nothing.
func admit(ctx context.Context, all []member, healing string) (ill []member, err error) {
	for _, m := range all {
		if m.err != nil || m.group != "" {
			continue
		}
		stands, err := m.enrol(ctx, "*", healing)
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(stands, healing) {
			ill = append(ill, m)
		}
	}
	return ill, nil
}

// unite returns the highest promise and the latest content for each register: what counted is known to one of a majority.
func unite(dumps []map[string]kept) map[string]kept {
	union := make(map[string]kept)
	for _, d := range dumps {
		for key, k := range d {
			u := union[key]
			if u.promised.less(k.promised) {
				u.promised = k.promised
			}
			if u.accepted.ballot.less(k.accepted.ballot) {
				u.accepted = k.accepted
			}
			union[key] = u
		}
	}
	return union
}

var errElseHeals = errors.New("somebody else heals it")

// healOne writes all of it, and has the acceptor vote only then. If another heals it too, one of them finds that out.
func (q *Store) healOne(ctx context.Context, m member, healing, group string, union map[string]kept) error {
	for key, k := range union {
		text := k.promised.String() + k.accepted.ballot.String() + k.accepted.content.encode()
		reply, err := m.RunIn(ctx, m.memory, healScript, append(q.keys(m.acceptor, key), m.key()),
			[]string{healing, text, strconv.FormatInt(k.accepted.age.Microseconds(), 10)})
		if err == nil {
			if n, _ := reply.AsInt64(); n != 1 {
				err = errElseHeals
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.Address, err)
		}
	}
	stands, err := m.enrol(ctx, healing, "v "+group)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(stands, "v "+group) {
		return fmt.Errorf("%s: %w", m.Address, errElseHeals)
	}
	q.seat(m)
	q.log.Info("redis/quorum: it votes again", "address", m.Address, "registers", len(union))
	return nil
}
