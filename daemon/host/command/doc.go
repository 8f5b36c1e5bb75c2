// Package command runs a program that the configuration names: without a shell, in a session of its own,
// as a given user, with a bounded time and output. What it leaves running ends with it.
//
// The user of a command can keep it from ending (ptrace(2), a file system that does not answer). It owns the commands
// that were killed and have not ended: nobody waits for them, they are reaped when they end, and until then no other
// command of that user is started, so that they are few. Its lock is held for that count only.
//
// It never decides which program may run, and never logs an argument or an output.
//
// A [Webhook] is such a program that listens: on a port of the loopback address or on a unix socket, nowhere
// else. It gets JSON, with bounds, and nothing decides here about what is sent.
package command
