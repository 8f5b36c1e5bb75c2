package level

import "time"

// Level is how much of the repository a git operation locks.
type Level int

// The levels. Status, diff, log, show and add need no lock. Commit and checkout of a branch write
// one ref. Gc, repack and fetch work on the whole repository.
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

// Wait returns how long an operation of this level waits for other holders.
func (l Level) Wait() time.Duration {
	switch l {
	case None:
		return 0
	case Exclusive:
		return ExclusiveWait
	}
	return RefWait
}

// Code returns the error code of a wait that timed out.
func (l Level) Code() string {
	if l == Exclusive {
		return "EXCLUSIVE_LOCK_TIMEOUT"
	}
	return "BRANCH_LOCK_TIMEOUT"
}
