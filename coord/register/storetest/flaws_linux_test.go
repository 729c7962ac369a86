package storetest

// Only here does the system tell what is open.
func init() { caughtBy[fileLeak] = []string{"11 goroutines and files after use and Close"} }
