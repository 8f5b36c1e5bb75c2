package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// leaveAfter is how long a command on a terminal may take to end after a signal, endAfter one without. The
	// longer time is for programs that end in an orderly way.
	leaveAfter = 2 * time.Second
	endAfter   = 10 * time.Second
	// endBound is how long polisctl itself may take to end after it has left what it was asked for.
	endBound = 5 * time.Second
)

// endWithin waits for done. After endBound it ends the process by the signal: what is blocked in a write that
// nobody reads ends with no context. before is called then; it must not block.
func endWithin(done <-chan struct{}, sig syscall.Signal, before func()) {
	select {
	case <-done:
		return
	case <-time.After(endBound):
	}
	before()
	signal.Reset(sig)
	_ = unix.Kill(os.Getpid(), sig) // ourselves: it cannot fail
	select {
	case <-done:
	case <-time.After(time.Second): // the signal is ignored, as with nohup(1)
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	}
}

// leaving is the cause of a session whose command is left, with the reason for its user.
type leaving struct {
	interrupt
	why string
}

func (l leaving) Unwrap() error { return l.interrupt }
