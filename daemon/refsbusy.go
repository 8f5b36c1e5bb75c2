package daemon

import "polis/lockd"

// refsBusy reports whether the lock of any ref, or of the whole repository, is held.
func (r *refLocks) refsBusy() bool {
	for _, l := range r.d.locks.List(lockd.Filter{Workspace: r.workspace}) {
		if lockd.FileKey(lockd.FilePath(l.Path)) != l.Path {
			return true
		}
	}
	return false
}
