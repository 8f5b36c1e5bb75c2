// Package e2e tests the built programs as a user runs them: polisd with its own directories and the
// fork launcher, driven only by polisctl and the sockets. Of polis it imports only the types of the
// API. It leaves nothing behind.
package e2e
