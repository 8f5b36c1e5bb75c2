// Package e2e tests the built programs as a user has them: polisd with its
// own directories and the fork launcher, driven only by polisctl and the sockets.
// It imports nothing of polis but the words of its API, and leaves nothing behind.
package e2e
