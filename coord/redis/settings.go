package redis

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/turnwise/turnwise/coord/driver"
	"github.com/turnwise/turnwise/coord/register"
)

var errCluster = fmt.Errorf("it is part of a cluster, which has no memory that can be watched as a whole, and a script there sees "+
	"one of its parts only: use a Redis of its own: %w", driver.ErrDenied)

// inspect refuses a server on which registers would not be safe.
func (s *Store) inspect(ctx context.Context) error {
	info, err := s.info(ctx)
	if err != nil {
		return explain(err)
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf(format+": %w", append(args, driver.ErrDenied)...)
	}
	if info["redis_version"] == "" {
		return refuse("what answers there is not Redis: it does not say which version it is")
	}
	if !atLeast(info["redis_version"], 6, 2) {
		return refuse("it is Redis %s; it takes 6.2 or newer, or Valkey", info["redis_version"])
	}
	if info["cluster_enabled"] == "1" {
		return errCluster
	}
	if info["role"] != "master" {
		return refuse("it is a replica of %s:%s and does not write: use that one", info["master_host"], info["master_port"])
	}
	if policy := info["maxmemory_policy"]; info["maxmemory"] != "0" && strings.HasPrefix(policy, "allkeys-") {
		return refuse("its maxmemory-policy is %s, so it may throw registers away when memory is short, and two would hold one lock: "+
			"CONFIG SET maxmemory-policy noeviction", policy)
	}
	if info["maxmemory_policy"] == "" {
		s.Log.Warn("redis: the server does not say what it does when memory is short; make sure that maxmemory-policy is noeviction")
	}
	if info["connected_slaves"] != "0" && info["min_slaves_good_slaves"] == "" {
		s.Log.Warn("redis: the server has replicas and writes without them: if one takes its place while it still answers, two may hold " +
			"one lock; set min-replicas-to-write to the number of its replicas")
	}
	if err := s.nameChannels(ctx); err != nil {
		return explain(err)
	}
	if !s.keeps(ctx) {
		s.Log.Info("redis: a restart of the server may take away what it has answered, or CONFIG GET is not allowed and it cannot be known; " +
			"then all sessions end and nobody is granted for a TTL")
	}
	return nil
}

// info returns what the server says of itself.
func (s *Store) info(ctx context.Context) (map[string]string, error) {
	up, err := s.conn.get(ctx)
	if err != nil {
		return nil, err
	}
	text, err := up.Do(ctx, up.B().Info().Build()).ToString()
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all, nil
}

// nameChannels puts the number of the database into the names of channels: all databases of a server share their channels.
func (s *Store) nameChannels(ctx context.Context) error {
	up, err := s.conn.get(ctx)
	if err != nil {
		return err
	}
	client, err := up.Do(ctx, up.B().ClientInfo().Build()).ToString()
	if err != nil {
		return err
	}
	for _, field := range strings.Fields(client) {
		if n, ok := strings.CutPrefix(field, "db="); ok {
			s.channels = s.root + n + ":"
		}
	}
	if s.channels == "" {
		return fmt.Errorf("%w: CLIENT INFO names no database", errStrange)
	}
	return nil
}

func atLeast(version string, major, minor int) bool {
	var is [2]int
	for i, part := range strings.SplitN(version, ".", 3) {
		if i < len(is) {
			is[i], _ = strconv.Atoi(part)
		}
	}
	return is[0] > major || is[0] == major && is[1] >= minor
}

const rehearsals = "rehearsal/"

// rehearse does once all that is done later, to find out now what the user may not do.
func (s *Store) rehearse(ctx context.Context) error {
	first, by := register.NewVersion(), register.NewVersion()
	key := rehearsals + hex.EncodeToString(first[:])
	note := register.Note{Topic: key, Text: []byte("x")}
	if _, err := s.swap(ctx, register.Swap{Key: key, Next: first, Value: []byte("x"), Notes: []register.Note{note}}); err != nil {
		return err
	}
	late := register.Swap{Key: key, Old: by, Next: register.NewVersion(), By: by, Reserve: time.Microsecond}
	if _, err := s.swap(ctx, late); !errors.Is(err, register.ErrConflict) {
		return fmt.Errorf("a swap that came too late: %w", cmp.Or(err, errStrange))
	}
	if it, err := s.read(ctx, key); err != nil || !bytes.Equal(it.Value, []byte("x")) || it.Version != first {
		return errors.Join(fmt.Errorf("%w: %v instead of what was written", errStrange, it), err)
	}
	found := false
	err := s.list(ctx, key, func(register.Item) bool { found = true; return true })
	if err == nil && !found {
		err = fmt.Errorf("%w: a register is not listed", errStrange)
	}
	if err == nil {
		_, err = s.swap(ctx, register.Swap{Key: key, Old: first, By: by})
	}
	return err
}
