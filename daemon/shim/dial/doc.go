// Package dial is the daemon's client for shims: short calls with a deadline, and the stream of a
// shim's events. It keeps no state between calls. A restarted daemon needs only the socket of a
// shim.
package dial
