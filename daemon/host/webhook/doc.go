// Package webhook sends JSON to a program on this machine that a person has set up for
// notifications: to a port of the loopback address or to a unix socket, nowhere else. It owns the
// bounds of the exchange, and decides nothing about what is sent.
package webhook
