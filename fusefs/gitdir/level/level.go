package level

import "time"

// Level is how much of the repository an operation of git keeps to itself.
type Level int

// The levels. Status, diff, log, show and add need none; commit and checkout of
// a branch write one ref; gc, repack and fetch work on all of them.
const (
	None Level = iota
	RefRead
	RefWrite
	Exclusive
)

// RefWait and ExclusiveWait bound the wait for a lock of that level.
const (
	RefWait       = 5 * time.Second
	ExclusiveWait = 30 * time.Second
)

// Wait is how long an operation of this level waits for others.
func (l Level) Wait() time.Duration {
	switch l {
	case None:
		return 0
	case Exclusive:
		return ExclusiveWait
	}
	return RefWait
}

// Code is what the API calls a wait that was in vain.
func (l Level) Code() string {
	if l == Exclusive {
		return "EXCLUSIVE_LOCK_TIMEOUT"
	}
	return "BRANCH_LOCK_TIMEOUT"
}
