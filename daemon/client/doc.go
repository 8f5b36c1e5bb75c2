// Package client speaks the admin API of polisd over its unix socket, and the
// frame protocol of an agent's own socket for exec, shell and attach.
//
// It owns connections and nothing else: no retries of requests that change
// something, no cache, no terminal (raw mode and signals belong to the
// program that has a terminal). Every error it returns is an *api.Error, so
// that a caller needs one translation only. It takes no locks of its own.
package client
