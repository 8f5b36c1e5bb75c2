package leases

import (
	"fmt"

	"polis/daemon/api"
	"polis/lockd"
)

// Table is the part of the lock table (lockd.Server) that Release needs.
type Table interface {
	Unlock(workspace, holder, path string) (lockd.Lease, error)
	Break(workspace, path, by, reason string) ([]lockd.Lease, error)
}

// Release releases the lock that a request names or, with break set, breaks another holder's.
// lr is the request in the terms of the table, by is who made it. A lock that nobody holds is
// NOT_LOCKED.
func Release(t Table, lr lockd.LockRequest, by string, req api.LockRequest) error {
	p := append(lr.Paths, lr.Trees...)[0]
	var err error
	if req.Break {
		var broken []lockd.Lease
		if broken, err = t.Break(lr.Workspace, p, by, req.Reason); err == nil && len(broken) == 0 {
			err = lockd.ErrNotHeld
		}
	} else {
		_, err = t.Unlock(lr.Workspace, lr.Holder, p)
	}
	if err != nil {
		return Error(fmt.Errorf("%s: %w", req.Path, err))
	}
	return nil
}
