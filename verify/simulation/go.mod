module github.com/turnwise/turnwise/verify/simulation

go 1.26.0

replace github.com/turnwise/turnwise => ../..

require github.com/turnwise/turnwise v0.0.0-00010101000000-000000000000

require (
	github.com/go-zookeeper/zk v1.0.4 // indirect
	go.uber.org/goleak v1.3.0 // indirect
)
