module github.com/turnwise/turnwise/coord/redis

go 1.26.0

replace github.com/turnwise/turnwise => ../..

require (
	github.com/redis/rueidis v1.0.79
	github.com/turnwise/turnwise v0.0.0-00010101000000-000000000000
)

require (
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
