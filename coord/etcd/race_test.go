//go:build race

package etcd

// raceDetector says that everything takes several times as long.
const raceDetector = true
