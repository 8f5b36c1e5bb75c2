package daemon

import (
	"errors"
	"io/fs"
	"path/filepath"

	"polis/daemon/store"
)

// eventsOfALife is how many event numbers one run of the daemon reserves: 2^53, the limit of
// JSON's readers, has room for 30 million runs.
const eventsOfALife = 1 << 28

// eventIDs is kept beside the state.
type eventIDs struct {
	Next uint64 `json:"next"`
}

// firstEvent is the number before the daemon's first event: the clock's, or, after a clock that
// went back or a run with very many events, one that no earlier run issued.
func (d *Daemon) firstEvent() uint64 {
	path := filepath.Join(d.Config.WorkspacesDir, "events.json")
	first := uint64(d.started.UnixMilli())
	var kept eventIDs
	if err := store.ReadJSON(path, &kept, d.started); err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.Log.Warn("count of events lost; counted from the clock", "path", path, "err", err)
	}
	first = max(first, kept.Next)
	if err := store.WriteJSON(path, eventIDs{Next: first + eventsOfALife}); err != nil {
		d.Log.Warn("count of events not kept", "path", path, "err", err)
	}
	return first
}
