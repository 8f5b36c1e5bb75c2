package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/store/layout"
)

// maxLeftEvents bounds the file with the last events of a shim, in bytes.
const maxLeftEvents = 32 << 20

// leftEvents publishes what a shim that has ended left of refusals: those that it counted, and those of its last moments, in
// which polisd did not follow it. What else it did is known from its end.
func (s *Shims) leftEvents(name, dir string) {
	file := layout.ShimEvents(dir)
	left, err := readLeftEvents(file)
	if errors.Is(err, fs.ErrNotExist) {
		return // this was done before, or it is a shim of an earlier version
	}
	seen, _ := s.LoadCursor(name)
	if err != nil {
		s.Log.Error("last events of a shim not read", "agent", name, "err", err)
	}
	if err != nil || left.Unfinished {
		s.Publish(api.Event{Type: api.EventMissed, Agent: name, Message: fmt.Sprintf("the shim of agent %s was killed: refusals that it had counted in its last moments are missing", name)})
	}
	refusals, missing := left.Refusals(seen)
	for _, e := range refusals {
		e.Agent = name
		s.Publish(e)
	}
	if missing > 0 {
		s.Publish(api.Event{Type: api.EventMissed, Agent: name, Data: map[string]any{"missing": missing}, Message: fmt.Sprintf("%d events of agent %s were not kept while polisd was away", missing, name)})
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.Log.Warn("file with the last events of a shim not removed", "agent", name, "err", err)
	}
}

func readLeftEvents(path string) (left wire.LeftEvents, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return left, fmt.Errorf("open the last events: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxLeftEvents+1))
	if err == nil && len(b) > maxLeftEvents {
		err = fmt.Errorf("it has more than %d bytes", maxLeftEvents)
	}
	if err == nil {
		err = json.Unmarshal(b, &left)
	}
	if err != nil {
		return wire.LeftEvents{}, fmt.Errorf("read the last events: %w", err)
	}
	return left, nil
}
