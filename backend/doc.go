// Package backend opens any of turnwise's services by its URL. It is the one place that knows all drivers.
//
//	client, err := backend.Open(ctx, "etcd://etcd-1,etcd-2,etcd-3/locks?session=5s")
//	m := mutex.New(client, "orders/42")
//
// The URLs:
//
//	file:///var/lib/locks                     a directory of this machine
//	file://                                   a directory in the user's home: .local/state/turnwise/locks
//	zk://h1,h2:2181/root                      ZooKeeper
//	etcd://h1,h2:2379/root                    etcd
//	redis://host:6379/0                       one Redis or Valkey, and the number of its database
//	redis://h1,h2,h3                          several that know nothing of one another, and agree by majority
//	postgres://user@host:5432/database        PostgreSQL
//	mysql://user@host:3306/database           MariaDB or MySQL
//	memcached://host:11211                    memcached
//
// Where no port is said it is the usual one, and where no path is said it is the driver's own root. The home is that of the
// user as the system knows it, not $HOME: a job of cron and a shell mean the same directory.
//
// # Parameters
//
// What follows the question mark is name=value, joined by "&". A name that a service does not know is an error.
//
//	session=10s             how long a session lasts of which nothing is heard; not on file, where the kernel tells
//	password-file=PATH      where the password of the user in the URL is, without the line's end
//	password-env=NAME       the variable that has it
//	cleartext=yes           lets a password go to another machine without encryption
//	tls=yes                 encrypt, with the system's authorities; each of the next four says so, too
//	ca=PATH                 encrypt, and trust these authorities instead (PEM)
//	cert=PATH, key=PATH     encrypt, and show this certificate (PEM)
//	server-name=NAME        encrypt, and want this name in the server's certificate
//
//	sync=yes, group=yes, any-filesystem=yes   file: see file.WithSync, WithGroup, WithAnyFileSystem
//	root=NAME               redis, memcached: what all keys begin with
//	master=NAME             redis: the hosts are sentinels, which know the master by this name
//	table=NAME              postgres, mysql: the table, if it is not the usual one
//	polling=yes             postgres, mysql: waiters ask, and need no connection to listen on
//	listen-url=URL          postgres: where to listen, if the host is a pooler
//	sslmode=MODE            postgres: as libpq has it, instead of tls
//	evictions=yes           memcached: see memcached.WithEvictions
//
// A password may stand in the URL, too, as user:password@host, with %xx for what has a meaning in URLs. Where others can see
// the URL, as in a list of processes, use a file or a variable.
//
// # Small binaries
//
// Each service but file has a build tag that leaves it out, with all that it needs: turnwise_no_zk, turnwise_no_etcd,
// turnwise_no_redis, turnwise_no_postgres, turnwise_no_mysql, turnwise_no_memcached. What was left out is still known by
// name, and Open says so.
package backend
