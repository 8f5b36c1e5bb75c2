// Package dial talks to a shim from the daemon: short calls with a deadline, and the stream of
// the shim's events. It keeps no state between calls, so a restarted daemon needs only a shim's
// socket.
package dial
