package main

import "time"

// leaveAfter is how long a command on a terminal may take to end after a signal, endAfter one without. The longer time is for
// programs that end in an orderly way.
const (
	leaveAfter = 2 * time.Second
	endAfter   = 10 * time.Second
)

// leaving is the cause of a session whose command is left, with the reason for its user.
type leaving struct {
	interrupt
	why string
}

func (l leaving) Unwrap() error { return l.interrupt }
