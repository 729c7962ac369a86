// Package leaks uses locks in every way that may leave something behind, for as long as you like, and checks what has
// grown: goroutines, memory and files here, watches and nodes at the server.
package leaks
