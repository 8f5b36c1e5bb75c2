package timeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"polis/daemon/api"
	"polis/daemon/store"
)

// Resume removes what a crash left in the store, completes the restores that it interrupted, and
// returns what it did, for people. A note of an agent that is gone is removed.
func (t *Timeline) Resume(ctx context.Context, exists func(agent string) bool) (done []string, err error) {
	if s, err := t.open(ctx, false); s == nil {
		return nil, err
	}
	entries, err := os.ReadDir(t.intents())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, e := range entries {
		file := filepath.Join(t.intents(), e.Name())
		agent, named := strings.CutSuffix(e.Name(), ".json")
		if !named || strings.HasPrefix(e.Name(), ".") { // an interrupted write: nothing was changed
			errs = append(errs, os.Remove(file))
			continue
		}
		var in intent
		if err := store.ReadJSON(file, &in, t.Now()); err != nil {
			errs = append(errs, err)
			continue
		}
		if in.Agent != agent || !exists(agent) {
			errs = append(errs, os.Remove(file))
			continue
		}
		if _, err := t.restore(ctx, in.Snapshot, api.SnapshotRestoreRequest{Paths: in.Paths}, restorer{again: true, branch: in.Branch}); err != nil {
			if api.CodeOf(err) == api.CodeNotFound { // the snapshot was removed
				err = errors.Join(err, os.Remove(file))
			}
			errs = append(errs, fmt.Errorf("restore of snapshot %s, which was interrupted: %w", in.Snapshot, err))
			continue
		}
		done = append(done, fmt.Sprintf("the restore of snapshot %s of agent %s was interrupted, and is completed", in.Snapshot, agent))
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return done, errors.Join(errs...)
}
