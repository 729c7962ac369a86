// Package mixed uses a service as a busy program does, with all recipes on one client, while the server is restarted.
package mixed
