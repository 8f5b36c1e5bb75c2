package setup

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"polis/daemon/store"
)

// Verify computes the checksum of each result whose last comparison is longer ago than age, and marks
// those that differ as damaged: new agents do not get them. It returns the damaged ones that it found.
func (s *Store) Verify(ctx context.Context, age time.Duration) (damaged []Record, err error) {
	all, err := s.Results()
	for _, r := range all {
		if r.Damaged != "" || s.now().Sub(r.Compared) < age {
			continue
		}
		got, _, serr := sum(ctx, filepath.Join(s.path(r.ID), treeName), nil)
		switch {
		case ctx.Err() != nil:
			return damaged, errors.Join(err, context.Cause(ctx))
		case errors.Is(serr, fs.ErrNotExist) && !s.exists(r.ID):
			continue // Collect has removed it meanwhile
		case serr != nil:
			r.Damaged = "it cannot be read: " + serr.Error()
		case got != r.Sum:
			r.Damaged = "its files differ from those that were made"
		default:
			r.Compared = s.now().UTC()
		}
		if werr := s.rewrite(ctx, r); werr != nil {
			err = errors.Join(err, werr)
			continue
		}
		if r.Damaged != "" {
			s.log.Error("result of a setup command is damaged", "op", "setup", "path", s.path(r.ID), "why", r.Damaged)
			damaged = append(damaged, r)
		}
	}
	return damaged, err
}

func (s *Store) exists(id string) bool {
	_, err := s.read(id)
	return err == nil
}

// rewrite stores a changed record, unless the result was removed.
func (s *Store) rewrite(ctx context.Context, r Record) error {
	release, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	if !s.exists(r.ID) && r.Damaged == "" {
		return nil
	}
	err = store.WriteSummed(filepath.Join(s.path(r.ID), recordName), r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
