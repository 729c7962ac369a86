package file

import "testing"

var unfit = map[uint32]string{}

func fileSystem(testing.TB, string) uint32 { return 0 }
