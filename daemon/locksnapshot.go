package daemon

import (
	"errors"
	"io/fs"
	"path/filepath"

	"polis/daemon/api"
	"polis/daemon/git/leases"
	"polis/daemon/store"
	"polis/lockd"
)

// lockFile returns the path of the file with the explicit locks and a bound for the tokens. No
// shim reclaims these from a restarted daemon.
func (d *Daemon) lockFile() string { return filepath.Join(d.Config.WorkspacesDir, "locks.json") }

// keepLocks makes the lock table load what an earlier daemon saved, and save its own. A malformed
// file is renamed: its locks are lost, which is logged, and no request waits for them.
func (d *Daemon) keepLocks(alive []string) {
	d.locks.Keep = leases.Keeps
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
	k.Leases = leases.Surviving(k.Leases, alive)
	d.locks.Kept = k
}

// dropStrayLocks releases what removed agents hold until their merge.
func (d *Daemon) dropStrayLocks() {
	known := d.agents.Statuses("")
	for _, holder := range leases.Stray(d.locks.List(lockd.Filter{}), func(name string) bool { return known[name] != "" }) {
		d.locks.ReleaseMerge(holder)
	}
}
