package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/turnwise/turnwise/coord/register/storekit"
)

// ErrCluster says why a cluster is refused.
var ErrCluster = storekit.Denied("it is part of a cluster, which has no memory that can be watched as a whole, and a script there sees " +
	"one of its parts only: use a Redis of its own")

// errEvicts says why a server is refused. Without a limit to its memory it throws nothing away yet, but a limit can be set at any time.
var errEvicts = storekit.Denied("its maxmemory-policy is allkeys-…, so it may throw registers away when memory is short, and two would hold one lock: " +
	"CONFIG SET maxmemory-policy noeviction")

// Inspect refuses a server on which registers would not be safe.
func (s *Server) Inspect(ctx context.Context) error {
	info, err := s.info(ctx)
	if err != nil {
		return explain(err)
	}
	if info["redis_version"] == "" {
		return storekit.Denied("what answers there is not Redis: it does not say which version it is")
	}
	if !atLeast(info["redis_version"], 6, 2) {
		return storekit.Denied("it is Redis %s; it takes 6.2 or newer, or Valkey", info["redis_version"])
	}
	// A script in a cluster may touch keys of one slot only, and no server knows what the others forget.
	if info["cluster_enabled"] == "1" {
		return ErrCluster
	}
	// It may become a master later, but whoever named it as its address is mistaken.
	if info["role"] != "master" {
		return storekit.Denied("it is a replica of %s:%s and does not write: use that one", info["master_host"], info["master_port"])
	}
	if strings.HasPrefix(info["maxmemory_policy"], "allkeys-") {
		return errEvicts
	}
	if info["maxmemory_policy"] == "" {
		s.Log.Warn("redis: the server does not say what it does when memory is short; make sure that maxmemory-policy is noeviction")
	}
	// This one may be intended, so it is only said.
	if info["connected_slaves"] != "0" && info["min_slaves_good_slaves"] == "" {
		s.Log.Warn("redis: the server has replicas and writes without them: if one takes its place while it still answers, two may hold " +
			"one lock; set min-replicas-to-write to the number of its replicas")
	}
	if err := s.nameChannels(ctx); err != nil {
		return explain(err)
	}
	up, err := s.conn.get(ctx)
	if err != nil {
		return explain(err)
	}
	switch keeps, err := up.keeps(ctx); {
	case err != nil:
		return err
	case !keeps:
		s.Log.Info("redis: a restart of the server may take away what it has answered, or CONFIG GET is not allowed and it cannot be known; " +
			"then all sessions end and nobody is granted for a TTL")
	}
	return nil
}

// maxInfo is far more than any server says of itself. What is taken apart is many times as large as the text.
const maxInfo = 1 << 20

// info returns what the server says of itself.
func (s *Server) info(ctx context.Context) (map[string]string, error) {
	up, err := s.conn.get(ctx)
	if err != nil {
		return nil, err
	}
	text, err := up.Do(ctx, up.B().Info().Build()).ToString()
	if err != nil {
		return nil, err
	}
	if len(text) > maxInfo {
		return nil, fmt.Errorf("%w: it says %d bytes of itself", ErrStrange, len(text))
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
func (s *Server) nameChannels(ctx context.Context) error {
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
			s.channels = s.Root + n + ":"
		}
	}
	if s.channels == "" {
		return fmt.Errorf("%w: CLIENT INFO names no database", ErrStrange)
	}
	return nil
}

// atLeast compares the first two numbers of a version.
func atLeast(version string, major, minor int) bool {
	var is [2]int
	for i, part := range strings.SplitN(version, ".", 3) {
		if i < len(is) {
			is[i], _ = strconv.Atoi(part)
		}
	}
	return is[0] > major || is[0] == major && is[1] >= minor
}
