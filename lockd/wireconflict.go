package lockd

import (
	"time"

	"polis/lockd/table"
)

type wireConflict struct {
	Path   wireKey `json:"path"`
	Lease  wireKey `json:"lease"`
	Holder string  `json:"holder"`
	Since  int64   `json:"since"` // unix ns
	Reason string  `json:"reason,omitempty"`
	Token  uint64  `json:"token"`
	Op     string  `json:"op,omitempty"`
	Pid    uint32  `json:"pid,omitempty"`
	// Of table.Until; the lease has the rest.
	At       int64 `json:"at,omitempty"` // unix ms
	Explicit bool  `json:"explicit,omitempty"`
}

func conflictOnWire(ce *ConflictError) *wireConflict {
	c := &wireConflict{
		Path: wirePath(ce.Path), Lease: wirePath(ce.Lease), Holder: ce.Holder, Since: ce.Since.UnixNano(),
		Reason: ce.Reason, Token: ce.Token, Op: ce.Op, Pid: ce.Pid, Explicit: ce.Until.Explicit,
	}
	c.Lease.Tree, c.Lease.Read = ce.Tree, ce.Mode == Read
	c.Lease.Merge, c.Lease.Keep = ce.Until.Merge, millis(ce.Until.After)
	if !ce.Until.At.IsZero() {
		c.At = ce.Until.At.UnixMilli()
	}
	return c
}

func (c *wireConflict) err(workspace string) *ConflictError {
	until := table.Until{Explicit: c.Explicit, Merge: c.Lease.Merge, After: time.Duration(c.Lease.Keep) * time.Millisecond}
	if c.At != 0 {
		until.At = time.UnixMilli(c.At)
	}
	return &ConflictError{
		Workspace: workspace, Path: c.Path.path(), Lease: c.Lease.path(), Holder: c.Holder,
		Since: time.Unix(0, c.Since), Reason: c.Reason, Token: c.Token,
		Mode: c.Lease.mode(), Tree: c.Lease.Tree, Op: c.Op, Pid: c.Pid, Until: until,
	}
}
