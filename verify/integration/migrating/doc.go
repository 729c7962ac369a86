// Package migrating puts turnwise beside the locks that people come from, as docs/migrating.md says to do it. The code that the
// page shows is here: it is compiled, and most of it runs.
package migrating
