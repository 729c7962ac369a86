// Package storekit has what stores for coord/register share, so that each is mended in one place: the options that all of
// them take, the way from an address to a client, what a store knows of its server's memory, a pool of connections, tries
// that are made again, and errors. It is for authors of stores. A store takes the parts that suit it.
//
// A store's package has three ways in, with the same names everywhere:
//
//	Connect   an address -> a coord.Client
//	Open      an address -> the store
//	New       the user's own connection to the service -> a driver
//
// and the same method in the same file; see docs/architecture.md.
package storekit
