module github.com/turnwise/turnwise/verify/bench

go 1.26.0

replace (
	github.com/turnwise/turnwise => ../../
	github.com/turnwise/turnwise/backend => ../../backend
	github.com/turnwise/turnwise/coord/etcd => ../../coord/etcd
	github.com/turnwise/turnwise/coord/mysql => ../../coord/mysql
	github.com/turnwise/turnwise/coord/nats => ../../coord/nats
	github.com/turnwise/turnwise/coord/postgres => ../../coord/postgres
	github.com/turnwise/turnwise/coord/redis => ../../coord/redis
	github.com/turnwise/turnwise/observe/otel => ../../observe/otel
	github.com/turnwise/turnwise/observe/prom => ../../observe/prom
)

require (
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/go-sql-driver/mysql v1.10.1
	github.com/go-zookeeper/zk v1.0.4
	github.com/jackc/pgx/v5 v5.12.0
	github.com/prometheus/client_golang v1.24.1
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	github.com/turnwise/turnwise v0.0.0-00010101000000-000000000000
	github.com/turnwise/turnwise/backend v0.0.0-00010101000000-000000000000
	github.com/turnwise/turnwise/coord/etcd v0.0.0-00010101000000-000000000000
	go.etcd.io/etcd/client/v3 v3.7.3
	go.opentelemetry.io/otel/sdk v1.45.0
	go.opentelemetry.io/otel/sdk/metric v1.45.0
	go.uber.org/zap v1.27.1
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.2 // indirect
	github.com/prometheus/common v0.70.1 // indirect
	github.com/prometheus/procfs v0.21.1 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel v1.45.0 // indirect
	go.opentelemetry.io/otel/metric v1.45.0 // indirect
	go.opentelemetry.io/otel/trace v1.45.0 // indirect
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd/v22 v22.7.0 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.29.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/nats-io/nats.go v1.55.0 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	github.com/turnwise/turnwise/coord/mysql v0.0.0-00010101000000-000000000000
	github.com/turnwise/turnwise/coord/nats v0.0.0-00010101000000-000000000000
	github.com/turnwise/turnwise/coord/postgres v0.0.0-00010101000000-000000000000
	github.com/turnwise/turnwise/coord/redis v0.0.0-00010101000000-000000000000
	github.com/turnwise/turnwise/observe/otel v0.0.0-00010101000000-000000000000
	github.com/turnwise/turnwise/observe/prom v0.0.0-00010101000000-000000000000
	go.etcd.io/etcd/api/v3 v3.7.3 // indirect
	go.etcd.io/etcd/client/pkg/v3 v3.7.3 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260803160001-6ac0973c030d // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260803160001-6ac0973c030d // indirect
	google.golang.org/grpc v1.83.2 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
