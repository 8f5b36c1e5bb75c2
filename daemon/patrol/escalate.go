package patrol

import (
	"time"

	"polis/daemon/api"
)

// maxDoublings bounds the exponent of the pause between two notifications.
const maxDoublings = 16

// Due reports whether a person is to be notified of a case: when it is opened, and while it is open
// again after a time that doubles, so that the notifications become rare when nobody answers. again
// is the first of these times; 0: a person is notified once. The times count from the last
// notification: what could not be sent for hours is not sent several times in a row. A case that
// waits for the merge queue needs nobody.
func Due(c api.Case, again time.Duration, now time.Time) bool {
	if c.State != api.CasePending && c.State != api.CaseZombieDetected {
		return false
	}
	if c.Escalated == 0 {
		return true
	}
	n := min(c.Escalated, maxDoublings)
	last := c.EscalatedAt
	if last.IsZero() { // an earlier version has saved it
		last = c.Opened.Add(again * (1<<(n-1) - 1))
	}
	return again > 0 && !now.Before(last.Add(again*(1<<(n-1))))
}
