module github.com/turnwise/turnwise/coord/mysql

go 1.25.0

replace github.com/turnwise/turnwise => ../..

require (
	github.com/go-sql-driver/mysql v1.10.1
	github.com/turnwise/turnwise v0.0.0-00010101000000-000000000000
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
)
