// Package redisfence refuses stale writes to Redis or Valkey: it runs a script of yours unless the token is stale. The
// check and the script are one step, so nothing comes between them.
//
//	fences := redisfence.New(eval)
//	_, err := fences.Do(ctx, "orders", fence.Stamp{Token: hold.Token()},
//		`return redis.call('SET', KEYS[1], ARGV[1])`, []string{"{orders}:total"}, []string{"17"})
//	// coord.ErrStale: somebody else holds the lock by now
//
// The lock may be on any engine; it need not be on this server.
//
// # Which client
//
// The one that you have: New takes a function that runs a script. With go-redis it is
//
//	func eval(ctx context.Context, script string, keys, args []string) (any, error) {
//		return redis.NewScript(script).Run(ctx, client, keys, args).Result()
//	}
//
// and with rueidis
//
//	func eval(ctx context.Context, script string, keys, args []string) (any, error) {
//		return rueidis.NewLuaScript(script).Exec(ctx, client, keys, args).ToAny()
//	}
//
// Both send a script's hash first, and the script itself only if the server does not know it yet.
//
// # Where the fence is
//
// In one key for each line, beside your data: see [Key]. It lasts as long as the data: a Redis that forgets its last
// writes at a crash or a fail-over forgets both. But nothing may evict the key: set maxmemory-policy to noeviction, or
// to one of the policies that start with volatile. In a cluster all keys of a script must be in one slot, so put the
// line's name into your keys, in braces.
//
// For data on another server this is no fence: the process can be paused between Pass and the write.
package redisfence
