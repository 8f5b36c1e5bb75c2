package leases

import (
	"context"
	"errors"
	"time"

	"polis/daemon/api"
	"polis/lockd"
)

// Error returns the API error for an error of the lock table.
func Error(err error) error {
	var ce *lockd.ConflictError
	switch {
	case errors.As(err, &ce):
		return api.Errorf(api.CodeFileLocked, "%s is locked by %s since %s", lockd.FilePath(ce.Path), ce.Holder, ce.Since.Format(time.RFC3339)).
			With("holder", ce.Holder).With("since", ce.Since).With("path", lockd.FilePath(ce.Path)).
			WithHint("wait, ask %s, or polisctl locks break %s", ce.Holder, lockd.FilePath(ce.Path))
	case errors.Is(err, lockd.ErrNotHeld):
		return api.Errorf(api.CodeNotLocked, "%w", err).WithHint("polisctl locks lists what is locked")
	case errors.Is(err, lockd.ErrUnavailable):
		return api.Errorf(api.CodeLockdUnavailable, "%w", err).WithHint("leases are being reclaimed after a restart; try again in a few seconds")
	case errors.Is(err, lockd.ErrNotKept):
		return api.Errorf(api.CodeStateNotSaved, "%w", err).WithHint("a lock must outlive a restart of polisd: is the disk full?")
	case errors.Is(err, lockd.ErrLimit):
		return api.Errorf(api.CodeQuota, "%w", err)
	case errors.Is(err, lockd.ErrInvalid):
		return api.Errorf(api.CodeBadRequest, "%w", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return api.Errorf(api.CodeTimeout, "lock: %w", err)
	}
	return api.Errorf(api.CodeInternal, "lock: %w", err)
}
