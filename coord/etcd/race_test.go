//go:build race

package etcd

// raceDetector says that the race detector is on: everything takes several times as long.
const raceDetector = true
