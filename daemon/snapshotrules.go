package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"polis/daemon/agent"
	"polis/daemon/host/walk"
	"polis/fusefs/ignore"
)

// rules returns what git ignores in an agent's files, of which root is a descriptor, and what ends it. The owner of the
// repository can exchange the files of git that say it.
func (h snapshotHost) rules(a agent.Held, root *os.File, exclude string) (rules *ignore.Matcher, end func() error, err error) {
	dir, uid := h.w.root.Dir(), uint32(a.WS.UID)
	state, err := walk.Own(dir, uid)
	if err != nil {
		return nil, nil, err
	}
	rules, err = ignore.New(ignore.Config{RootFD: int(root.Fd()), Recheck: time.Hour, // the files do not change meanwhile
		IndexPath: filepath.Join(h.w.root.Bare(), "worktrees", a.Name(), "index"), ExcludePath: exclude,
		Outside: func(path string, flags int) (int, error) {
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				return -1, err
			}
			return walk.File(state, rel, uid, flags)
		}})
	if err != nil {
		return nil, nil, errors.Join(err, state.Close())
	}
	return rules, func() error { return errors.Join(rules.Close(), state.Close()) }, nil
}
