package leases

import (
	"fmt"
	"strings"

	"polis/daemon/api"
	"polis/lockd"
)

// changesOfEntry is how many changes one receipt has at most, and changesBytes how long their paths are
// together, in bytes.
const (
	changesOfEntry = 100
	changesBytes   = 8 << 10
)

// Receipts returns the receipts of leases that a holder was granted or that ended. Those that
// the daemon's own git takes for a moment have none, nor have those that git takes on refs for one
// command: a ref that changes has a receipt of its own.
func Receipts(c lockd.Changes) (out []api.Event) {
	if strings.HasPrefix(c.Holder, DaemonHolder) {
		return nil
	}
	var part []api.LeaseChange
	size, missed := 0, c.Missed
	flush := func() {
		granted, ended := 0, 0
		for _, l := range part {
			if l.Granted {
				granted++
			}
			if !l.Held {
				ended++
			}
		}
		data := map[string]any{"leases": part, "workspace": c.Workspace}
		e := api.Event{Type: api.ReceiptLeases, Agent: c.Holder, Data: data,
			Message: fmt.Sprintf("%s: %s granted, %s ended", c.Holder, api.Count(granted, "lease"), api.Count(ended, "lease"))}
		if missed > 0 {
			data["missed"] = missed
			e.Message += fmt.Sprintf(", and %s not recorded: there were too many", api.Count(missed, "change"))
		}
		if len(part) > 0 {
			e.Time = part[len(part)-1].Time
		}
		out, part, size, missed = append(out, e), nil, 0, 0
	}
	for _, l := range c.List {
		if l.Path == lockd.Exclusive || strings.HasPrefix(l.Path, lockd.RefKey("")) {
			continue
		}
		path := api.EncodePath(lockd.FilePath(l.Path))
		if len(part) == changesOfEntry || size+len(path) > changesBytes && len(part) > 0 {
			flush()
		}
		size += len(path)
		part = append(part, api.LeaseChange{Time: l.At.UTC(), Path: path, Explicit: l.Explicit, Tree: l.Tree, Granted: l.Granted, Held: l.Held, Op: l.Op, PID: l.Pid})
	}
	if len(part) > 0 || missed > 0 {
		flush()
	}
	return out
}
