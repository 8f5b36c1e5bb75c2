package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// seenFile holds the number of the last processed event of the agent's shim. It is in the run
// directory: neither shim nor number outlives a reboot.
func (s *Shims) seenFile(agent string) string { return filepath.Join(s.Run.Agent(agent), "seen") }

// SaveCursor saves the number. It overwrites the old one in one call and always has the same
// length, so that a daemon killed in between leaves one of both.
func (s *Shims) SaveCursor(agent string, event uint64) error {
	f, err := os.OpenFile(s.seenFile(agent), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(fmt.Appendf(nil, "%020d\n", event))
	return errors.Join(err, f.Close())
}

// LoadCursor reads the number; ok is false if there is none.
func (s *Shims) LoadCursor(agent string) (event uint64, ok bool) {
	b, err := os.ReadFile(s.seenFile(agent))
	if err != nil || len(b) != 21 {
		return 0, false
	}
	event, err = strconv.ParseUint(string(b[:20]), 10, 64)
	return event, err == nil
}
