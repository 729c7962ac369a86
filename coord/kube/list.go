package kube

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/register"
	"github.com/turnwise/turnwise/coord/register/storekit"
)

const (
	// page is how many leases List asks for at a time.
	page = 100

	// mostCleared is how many empty leases one List takes away.
	mostCleared = 20
)

type leases struct {
	Kind     string   `json:"kind"`
	Metadata metadata `json:"metadata"`
	Items    []lease  `json:"items"`
}

func (s *Store) List(ctx context.Context, prefix string, yield func(register.Item) bool) error {
	known, err := s.known.Current()
	if err == nil {
		err = s.list(ctx, known, prefix, yield)
	}
	return s.failed(ctx, err, "list %q", prefix)
}

func (s *Store) list(ctx context.Context, known *memory, prefix string, yield func(register.Item) bool) error {
	selector := rootLabel + "=" + s.root
	if kind, has := kindOf(prefix); has {
		selector += "," + kindLabel + "=" + kind
	}
	var empty []metadata // without what stands in them: a server that lies may have as many as it likes
	limit := page
	for token := ""; ; {
		all, date, err := s.some(ctx, known, selector, token, limit)
		if errors.Is(err, errTooMuch) && limit > 1 { // whoever may create leases may have made large ones
			limit = max(1, limit/8)
			continue
		}
		if err != nil {
			return err
		}
		limit = min(2*limit, page)
		for i := range all.Items {
			l := &all.Items[i]
			it, _, err := l.item()
			it, err = storekit.Listed(it.Key, it, err)
			it.Made = l.Metadata.made(date)
			going := !l.Metadata.Going.IsZero()
			switch {
			case l.Metadata.Name != s.nameOf(it.Key): // somebody's copy, or not ours
			case err != nil && !going:
				return err
			case (going || it.Version.IsZero()) && len(empty) < mostCleared:
				m := l.Metadata
				empty = append(empty, metadata{Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Going: m.Going})
			case going || it.Version.IsZero():
			case strings.HasPrefix(it.Key, prefix) && !yield(it):
				return nil
			}
		}
		if token = all.Metadata.Continue; token == "" {
			break
		}
	}
	s.clear(ctx, empty)
	return nil
}

// some asks for a page. Where a list that took long cannot go on as it began, the API server says how it can go on from what is
// there now.
func (s *Store) some(ctx context.Context, known *memory, selector, token string, limit int) (all leases, date time.Time, err error) {
	before := known.revision.Load()
	for range 2 {
		query := url.Values{"labelSelector": {selector}, "limit": {strconv.Itoa(limit)}}
		if token != "" {
			query.Set("continue", token)
		}
		all = leases{}
		date, err = s.askDated(ctx, request{method: http.MethodGet, query: query}, &all)
		var st *status
		if !errors.As(err, &st) || st.Code != http.StatusGone || st.Metadata.Continue == "" {
			break
		}
		token = st.Metadata.Continue
	}
	if err == nil && token == "" { // a later page is of the time of the first
		err = s.saw(known, before, all.Metadata.ResourceVersion)
	}
	return all, date, err
}

// clear takes away what emptied registers have left behind. If somebody makes one of them again meanwhile, it stays.
func (s *Store) clear(ctx context.Context, empty []metadata) {
	for _, m := range empty {
		var err error
		if m.Going.IsZero() {
			err = s.ask(ctx, deletion(m.Name, stand{uid: m.UID, revision: m.ResourceVersion}), nil)
		} else {
			err = s.finish(ctx, m)
		}
		if err != nil && !isStale(err) {
			s.Log.Debug("kube: an empty lease stays for now", "lease", m.Name, "err", err)
			return
		}
	}
}
