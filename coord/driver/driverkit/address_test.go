package driverkit

import "testing"

func TestWhatStaysOnThisMachine(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:2181": true, "127.8.9.1:1": true, "[::1]:2379": true, "localhost:2379": true, "localhost": true, "127.0.0.1": true, "::1": true,
		"": false, ":2379": false, "10.0.0.1:2379": false, "zk1:2181": false, "localhost.example:1": false, "[::]:1": false, "0.0.0.0:1": false,
		"::1:2181": false,
	} {
		if OnThisMachine(addr) != want {
			t.Errorf("%q: %v", addr, !want)
		}
	}
}
