// Package rawconn reads and writes TCP connections by system calls that the Go scheduler does not observe.
// The sockets are non-blocking, so no call waits. Around an ordinary call Go wakes its monitor thread whenever
// the process was idle, which it is between two tokens of a stream: about a sixth of what a token costs.
// Waiting, deadlines and Close are those of package net.
//
// It owns no connection and starts no goroutine.
package rawconn
