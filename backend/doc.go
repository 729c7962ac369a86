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
//	redis://h1,h2,h3                          several that know nothing of one another; the majority decides
//	postgres://user@host:5432/database        PostgreSQL
//	mysql://user@host:3306/database           MariaDB or MySQL
//	memcached://host:11211                    memcached
//	nats://user@host:4222                     NATS, one server with JetStream; nats://:token@host for a token
//	kube://namespace                          Kubernetes: kube:// in a pod is the pod's own namespace
//
// Names from elsewhere are understood as well: postgresql, mariadb, valkey, zookeeper and memcache; kubernetes and k8s; rediss, valkeys, etcds and
// zks are the same as tls=yes.
//
// If no port is given it is the usual one, and if no path is given it is the driver's own root. The home is the user's
// home as the system knows it, not $HOME: a cron job and a shell mean the same directory. For the same reason a URL of
// PostgreSQL names the database, whatever PGDATABASE is; the other PG… variables of libpq, and ~/.pgpass, fill in what the
// URL leaves open.
//
// # Parameters
//
// What follows the question mark is name=value, joined by "&". A name that a service does not know is an error.
//
//	session=10s             how long a session lasts if nothing is heard from it; not on file, where the kernel tells
//	longest-session=10s     how long anybody's may last, on all but file, zk and etcd: when the service has
//	                        forgotten who holds, nobody is granted for that long; all URLs of a service must say the same
//	password-file=PATH      the file with the password of the user in the URL; line ends after it are ignored
//	password-env=NAME       the environment variable with that password
//	cleartext=yes           lets a password go to another machine without encryption, or without a check of its certificate
//	tls=yes                 encrypt, and trust the system's authorities; each of the next four implies tls=yes
//	ca=PATH                 encrypt, and trust these authorities instead (PEM)
//	cert=PATH, key=PATH     encrypt, and show this certificate (PEM)
//	server-name=NAME        encrypt, and require this name in the server's certificate
//
//	sync=yes, group=yes, any-filesystem=yes   file: see file.WithSync, WithGroup, WithAnyFileSystem
//	root=NAME               redis, memcached, nats, kube: what all keys begin with
//	master=NAME             redis: the hosts are sentinels, which know the master by this name
//	table=NAME              postgres, mysql: the table, if it is not the usual one
//	owner=ROLE              postgres: see postgres.WithOwner
//	polling=yes             postgres: waiters poll, and need no connection to listen on
//	listen-url=URL          postgres: where to listen, if the host is a pooler
//	sslmode=MODE            postgres: as in libpq, instead of tls
//	evictions=yes           memcached: see memcached.WithEvictions
//	monitor=URL             nats: see nats.WithMonitor; with credentials=PATH a file of credentials instead of a password
//	server=URL              kube: the API server, if it is not that of the pod: https://host:6443, or http://127.0.0.1:8001 for
//	                        kubectl proxy; with token-file=PATH, ca=PATH, cert=PATH and key=PATH as needed
//	kubeconfig=PATH         kube: see kube.WithKubeconfig; context=NAME chooses one of its contexts
//
// A password may also stand in the URL, as user:password@host, with %xx for characters that have a meaning in URLs: a
// password with a / or a ? as it is is refused, and not shown. If others can see the URL, as in a list of processes, use a
// file or a variable.
//
// # Small binaries
//
// Each service but file has a build tag that leaves it out, with all that it needs: turnwise_no_zk, turnwise_no_etcd,
// turnwise_no_redis, turnwise_no_postgres, turnwise_no_mysql, turnwise_no_memcached, turnwise_no_nats, turnwise_no_kube. A service
// that was left out is still known by name, and Open says that it was left out.
package backend
