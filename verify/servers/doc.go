// Package servers starts real servers as child processes (ZooKeeper, etcd, Redis, PostgreSQL, MariaDB, memcached,
// NATS), for tests, for the bench and for the chaos tool. This project is about what a lock does when a server is killed, is
// frozen or loses an election, and only the servers themselves show that: a fake would repeat our own mistakes.
//
// In a test one line is enough; the server ends with the test:
//
//	ensemble := servers.ZooKeeper(t, servers.Members(3))
//	single := servers.Etcd(t)
//	conn, events, err := zk.Connect(ensemble.Addrs()) // "127.0.0.1:15017", …
//
//	leader := ensemble.Leader(t)
//	leader.Kill()                                     // kill -9; Freeze and Thaw stop and continue it
//	leader.Restart(t)                                 // on the same data, at the same address
//
// The other servers stand alone: Members(3) gives three that know nothing of one another. URL says how to reach one:
//
//	quorum := servers.Redis(t, servers.Members(3), servers.AppendOnly("always"))
//	pg := servers.Postgres(t, servers.Config("max_connections = 20"))
//	pooler := servers.PgBouncer(t, pg.Member(0))
//	replica := servers.Postgres(t, servers.ReplicaOf(pg.Member(0)))
//	my := servers.MariaDB(t, servers.Password("secret"))
//	cache := servers.Memcached(t, servers.Flags("-M", "-m", "16"))
//	bus := servers.NATS(t, servers.Fsync())
//	pool, err := pgxpool.New(ctx, pg.URL())
//
// For a killed server to come back empty, remove the folder "data" in its [Member.Dir] before Restart.
//
// [Clocks] gives servers a clock that can be set. [TLS], [Config], [JavaOptions] and [Flags] change how they run, [Member.Mntr] and [Member.Metrics] tell what they
// did, and [StartProcess] runs other children, such as a client to be frozen while it holds a lock.
//
// A start takes half a second, so tests that leave their server in good health may share one:
//
//	func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }
//	zk := servers.ZooKeeper(t, servers.Shared())
//
// Outside tests, [StartZooKeeper], [StartEtcd], [StartRedis] and so on return errors instead.
//
// # What a test can rely on
//
//   - Every server dies with the process that started it, even if that is kill -9'd.
//   - Only processes that were started here are ended.
//   - The server that answers at a member's address is that member, not another process that got its port.
//   - Ports lie below the range the kernel hands out by itself. A client that dials the port of a killed server
//     would otherwise, once in a while, get that very port for its own end, connect to itself, and keep the
//     server from coming back.
//
// # As root
//
// PostgreSQL and PgBouncer refuse to run as root. If the tests run as root, these two run in a user namespace of their own,
// in which they are another user. In a container that allows no user namespaces, run the tests as another user.
//
// # Where the servers come from
//
// They come from the folder that `make deps` (scripts/deps.sh) fills: $TURNWISE_SERVERS, by default turnwise in the user's
// cache directory. None is taken from anywhere else, and another version than the pinned one is refused. Only Java is the
// machine's own. Tests that find no server are skipped, or fail if TURNWISE_REQUIRE_SERVERS=1 is set. Servers see nothing of
// the shell's variables, and tests only those that are meant for them ([Surroundings]). New databases are copies of templates, which are made once and kept in the system's folder for temporary files. There
// are no servers for Windows: this package compiles there, but starts nothing.
package servers
