// Package mixed uses a service as a busy program does, all recipes on one client, while the server is restarted under
// it.
package mixed
