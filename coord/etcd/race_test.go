//go:build race

package etcd

// raceDetector is true if everything takes several times as long.
const raceDetector = true
