// Package versions runs processes of an older turnwise beside today's, in the same lines of each service, and replaces the ones by
// the others while the lines stay busy: what lies at a service is a format. docs/operating.md says what that shows.
package versions
