package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"polis/fusefs/fdtree"
	"polis/internal/failpoint"
)

// Sweep removes what interrupted runs and removals left, after unmount has ended the mounts of a run.
// No run takes place.
func (s *Store) Sweep(ctx context.Context, unmount func(dir string) error) error {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		dir := s.path(e.Name())
		name, isRun := strings.CutSuffix(e.Name(), running)
		name, isGone := strings.CutSuffix(name, gone)
		if !idRE.MatchString(name) || !isRun && !isGone {
			continue
		}
		if isRun {
			if err := unmount(dir); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		errs = append(errs, fdtree.RemoveAll(ctx, dir))
	}
	return errors.Join(errs...)
}

// Collect removes results that no agent uses, except the one of the current key and the keep latest
// others. used returns the agents of each result. It returns the ids that were removed.
func (s *Store) Collect(ctx context.Context, current string, keep int, used func() (map[string][]string, error)) ([]string, error) {
	removed, err := s.retire(ctx, current, keep, used)
	var errs []error
	for _, id := range removed {
		if rerr := fdtree.RemoveAll(ctx, s.path(id)+gone); rerr != nil {
			errs = append(errs, fmt.Errorf("remove the result %s of a setup command: %w", id, rerr))
		}
		s.log.Info("result of a setup command removed", "op", "setup", "path", s.path(id))
	}
	return removed, errors.Join(append(errs, err)...)
}

// retire renames what Collect removes: one rename makes it invalid.
func (s *Store) retire(ctx context.Context, current string, keep int, used func() (map[string][]string, error)) (retired []string, err error) {
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	inUse, err := used()
	if err != nil {
		return nil, err
	}
	all, err := s.Results()
	if err != nil {
		return nil, err
	}
	kept := map[string]bool{}
	seen := map[string]bool{} // keys whose current result was met
	for _, r := range all {
		first := r.Damaged == "" && !seen[r.Key]
		seen[r.Key] = seen[r.Key] || first
		switch {
		case first && r.Key == current:
			kept[r.ID] = true
		case first && keep > 0 && len(inUse[r.ID]) == 0:
			keep--
			kept[r.ID] = true
		}
	}
	entries, err := os.ReadDir(s.dir) // also those without a record
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		id := e.Name()
		if !idRE.MatchString(id) || kept[id] || len(inUse[id]) > 0 {
			continue
		}
		if rerr := os.Rename(s.path(id), s.path(id)+gone); rerr != nil {
			err = errors.Join(err, rerr)
			continue
		}
		failpoint.Hit("setup:retired")
		retired = append(retired, id)
	}
	return retired, err
}
