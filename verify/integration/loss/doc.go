// Package loss shows, on real servers, that a holder that loses touch with the service stops before the next one
// starts.
package loss
