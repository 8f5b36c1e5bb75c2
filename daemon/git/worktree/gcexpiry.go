package worktree

import (
	"time"

	"polis/daemon/api"
)

// maxTrashAge is the longest age of saved work that a request may name.
const maxTrashAge = 10 * 365 * 24 * time.Hour

// Expiry returns the time before which saved work has expired: an age before now, which is the
// configured time to live or what the request sets instead.
func Expiry(req api.GCRequest, ttl time.Duration, now time.Time) (time.Time, error) {
	if req.BeforeSeconds == 0 {
		return now.Add(-ttl), nil
	}
	if req.BeforeSeconds < 0 || req.BeforeSeconds > int64(maxTrashAge/time.Second) {
		return time.Time{}, api.Errorf(api.CodeBadRequest, "before_seconds = %d: must be from 1 second to 10 years", req.BeforeSeconds)
	}
	return now.Add(-time.Duration(req.BeforeSeconds) * time.Second), nil
}
