package base

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"polis/daemon/store"
	"polis/fusefs/fdtree"
)

// Verify compares the files of each base that was made or compared longer ago than age with its git
// tree, and repairs a base that differs. While a base is in use a difference is only logged; the
// next Verify after that repairs it. Who wants a base meanwhile waits.
func (s *Store) Verify(ctx context.Context, age time.Duration) error {
	ids, err := s.List()
	for _, id := range ids {
		if verr := s.verify(ctx, id, age); verr != nil {
			err = errors.Join(err, fmt.Errorf("verify the base tree %s: %w", id, verr))
		}
	}
	return err
}

func (s *Store) verify(ctx context.Context, id string, age time.Duration) error {
	done, err := s.lock(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	r, err := s.read(id)
	if err != nil || !r.Synced && r.Boot != BootID() || s.cfg.Now().Sub(r.Made) < age {
		return nil //nolint:nilerr // its next use checks it
	}
	differ, err := s.compare(ctx, at(s.dir(id), id))
	if err != nil {
		return err
	}
	if len(differ) == 0 {
		r.Made = s.cfg.Now().UTC()
		return store.WriteSummed(filepath.Join(s.dir(id), recordName), r)
	}
	if _, err = s.repair(ctx, id); errors.Is(err, ErrInUse) {
		s.cfg.Log.Error("base tree in use is damaged; it is repaired when its agents are stopped", "op", "base", "path", s.dir(id), "count", len(differ), "paths", differ[:min(len(differ), 10)])
		return nil
	}
	return err
}

// compare returns the paths whose content differs from the tree, and those that the tree does not
// have. It writes nothing to the base.
func (s *Store) compare(ctx context.Context, b Base) (differ []string, err error) {
	tmp, err := s.cfg.Scratch()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fdtree.Cleanup(tmp)) }()
	c := &checkout{s: s, b: b, index: filepath.Join(tmp, "index")}
	if _, err := c.git(ctx, "read-tree", b.ID); err != nil {
		return nil, err
	}
	return c.differing(ctx)
}
