package etcdcluster

import (
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

func TestABackupIsPutBack(t *testing.T) {
	for _, c := range []struct {
		backup  Backup
		rev     int64 // before, it is 5
		watched bool  // what comes after revision 3, without a hint that something is missing
	}{
		{Backup{Fewer: 3}, 2, true},
		{Backup{Fewer: 3, Since: 6}, 8, true},
		{Backup{Fewer: 3, Bump: 1000}, 1002, false},
		{Backup{Fewer: 100}, 1, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			cluster := New(Config{Members: 3})
			defer cluster.Close()
			put := func(key string) {
				if _, err := cluster.Do(&pb.PutRequest{Key: []byte(key)}); err != nil {
					t.Fatal(err)
				}
			}
			for _, key := range []string{"a", "b", "c", "d"} {
				put(key)
			}
			broken := false
			cluster.Watch(0, false, func(*pb.WatchResponse) {}, func(error) { broken = true })
			cluster.Restore(c.backup)
			synctest.Wait()
			if rev := cluster.rev(cluster.members[1]); rev != c.rev || !broken || len(cluster.Keys("b")) != 0 {
				t.Errorf("%+v: it is at revision %d, streams are broken: %v", c.backup, rev, broken)
			}
			if _, err := cluster.state.ranges(&pb.RangeRequest{Key: []byte("a"), Revision: c.rev - 1}, c.rev); c.backup.Bump > 0 && err != rpctypes.ErrGRPCCompacted {
				t.Errorf("%+v: what was before is said to be %v", c.backup, err)
			}
			compacted, said := false, 0
			s := cluster.Watch(0, false, func(r *pb.WatchResponse) {
				compacted = compacted || r.CompactRevision > 0
				said += len(r.Events)
			}, func(error) {})
			s.Hear(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{
				CreateRequest: &pb.WatchCreateRequest{Key: []byte("a"), RangeEnd: []byte("z"), StartRevision: 4}}}, nil)
			for range 5 {
				put("x")
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if compacted == c.watched || said == 0 == c.watched {
				t.Errorf("%+v: a watch that was at revision 3 is told that something is missing: %v; %d events", c.backup, compacted, said)
			}
			cluster.Restore(Backup{}) // the same once more, with all that was done before
			if rev := cluster.rev(cluster.members[2]); rev != c.rev+5 {
				t.Errorf("%+v: put back once more it is at revision %d", c.backup, rev)
			}
		})
	}
}
