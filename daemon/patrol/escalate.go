package patrol

import (
	"time"

	"polis/daemon/api"
)

// maxDoublings bounds the exponent of the pause between two notifications.
const maxDoublings = 16

// Due reports whether a person is to be notified of a case: when it is opened, and while it is open
// again after a time that doubles, so that the notifications become rare when nobody answers. again
// is the first of these times; 0: a person is notified once. A case that waits for the merge queue
// needs nobody.
func Due(c api.Case, again time.Duration, now time.Time) bool {
	if c.State != api.CasePending && c.State != api.CaseZombieDetected {
		return false
	}
	if c.Escalated == 0 {
		return true
	}
	n := min(c.Escalated, maxDoublings)
	return again > 0 && !now.Before(c.Opened.Add(again*(1<<n-1)))
}
