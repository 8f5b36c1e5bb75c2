package daemon

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/leases"
	"polis/daemon/store"
	"polis/lockd"
)

// lockFile returns the path of the file with the explicit locks and a bound for the tokens. No
// shim reclaims these from a restarted daemon.
func (d *Daemon) lockFile() string { return filepath.Join(d.Config.WorkspacesDir, "locks.json") }

// keepLocks makes the lock table load what an earlier daemon saved, and save its own. A malformed
// file is renamed: its locks are lost, which is logged, and no request waits for them.
func (d *Daemon) keepLocks(alive []string) {
	d.locks.Keep = func(l lockd.Lease) bool { return !strings.HasPrefix(l.Holder, leases.DaemonHolder) }
	d.locks.Save = func(k lockd.Kept) error { return store.WriteJSON(d.lockFile(), k) }
	var k lockd.Kept
	switch err := store.ReadJSON(d.lockFile(), &k, d.started); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		d.Log.Error("explicit locks of an earlier start are lost", "op", "restore", "path", d.lockFile(), "code", api.CodeLockCorrupt, "err", err)
		d.warn("explicit locks were lost (" + string(api.CodeLockCorrupt) + "): " + err.Error())
		d.hub.Publish(api.Event{Type: api.EventReconciled, Code: api.CodeLockCorrupt, Message: "explicit locks of an earlier start are lost: " + err.Error()})
		return
	}
	// A lock in an agent's name ends with the agent, except for what a stopped agent has changed
	// and not merged.
	k.Leases = slices.DeleteFunc(k.Leases, func(l lockd.Lease) bool {
		return !strings.Contains(l.Holder, ":") && !l.Merge && !slices.Contains(alive, l.Holder)
	})
	d.locks.Kept = k
}

// dropStrayLocks releases what removed agents hold until their merge.
func (d *Daemon) dropStrayLocks() {
	known := d.agents.Statuses("")
	for _, l := range d.locks.List(lockd.Filter{}) {
		if l.Explicit && l.Merge && known[l.Holder] == "" {
			d.locks.ReleaseMerge(l.Holder)
		}
	}
}
