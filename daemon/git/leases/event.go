package leases

import (
	"fmt"
	"strings"

	"polis/daemon/api"
	"polis/lockd"
)

// Event returns the event that reports what happened in the lock table; false if none does.
func Event(e lockd.Event) (ev api.Event, reported bool) {
	if strings.HasPrefix(e.Holder, DaemonHolder) {
		return ev, false // the daemon's own git operations hold a lease for a moment
	}
	ev = api.Event{Type: api.EventLock, Agent: e.Holder, Data: map[string]any{"workspace": e.Workspace, "path": api.EncodePath(lockd.FilePath(e.Path)), "holder": e.Holder, "waiter": e.Waiter, "acquired_at": e.Since}}
	switch e.Kind {
	case lockd.EventConflict:
		if !e.Explicit || strings.HasPrefix(e.Waiter, DaemonHolder) {
			return ev, false // the loser's shim reports it, with the process and the operation
		}
		ev.Type, ev.Agent, ev.Code, ev.Data["op"] = api.EventLockConflict, e.Waiter, api.CodeFileLocked, e.Op
		ev.Message = fmt.Sprintf("%s cannot lock %s, which %s has", e.Waiter, api.PrintPath(lockd.FilePath(e.Path)), e.Holder)
	case lockd.EventWaiting:
		ev.Type, ev.Data["op"] = api.EventLockWaiting, e.Op
		ev.Message = fmt.Sprintf("%s waits for %s, which %s has locked", e.Waiter, api.PrintPath(lockd.FilePath(e.Path)), e.Holder)
	case lockd.EventBroken:
		ev.Type, ev.Code, ev.Data["by"], ev.Data["reason"] = api.EventLockBroken, api.CodeLockBroken, e.By, e.Note
		ev.Message = fmt.Sprintf("%s took the lock on %s from %s", e.By, api.PrintPath(lockd.FilePath(e.Path)), e.Holder)
		if e.Note != "" {
			ev.Message += ": " + e.Note
		}
	default:
		ev.Message = strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", e.Kind, e.Holder, api.PrintPath(lockd.FilePath(e.Path)), e.Why))
	}
	return ev, true
}
