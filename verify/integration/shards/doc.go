// Package shards has real processes divide shards among them, on real services: some come, leave, are killed and are stopped. No shard
// has two owners, each has one again soon, and none moves that need not.
package shards
