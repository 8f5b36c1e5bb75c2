package events

import (
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"polis/daemon/store"
)

// maxOfARun is how many event numbers one run of the daemon reserves: 2^53, the limit of JSON's
// readers, has room for 30 million runs.
const maxOfARun = 1 << 28

// ids is what the file of Reserve has.
type ids struct {
	Next uint64 `json:"next"`
}

// Reserve returns the number before the first event of a run that started then: the clock's, or,
// after a clock that went back or a run with very many events, one that no earlier run issued. path
// is the file with the numbers that are reserved. A file that cannot be read or written is logged,
// and keeps no run from starting.
func Reserve(path string, started time.Time, log *slog.Logger) uint64 {
	first := uint64(started.UnixMilli())
	var kept ids
	if err := store.ReadJSON(path, &kept, started); err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("count of events lost; counted from the clock", "path", path, "err", err)
	}
	first = max(first, kept.Next)
	if err := store.WriteJSON(path, ids{Next: first + maxOfARun}); err != nil {
		log.Warn("count of events not kept", "path", path, "err", err)
	}
	return first
}
