package cas

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"polis/internal/failpoint"
)

// Commit makes what was added durable, and then visible to readers. After an error nothing or some
// of it is visible, each object complete; Sweep removes what nothing needs.
func (b *Batch) Commit() error {
	if err := b.full(); err != nil {
		return err
	}
	if err := b.sync(); err != nil {
		return fmt.Errorf("sync the store: %w", err)
	}
	failpoint.Hit("cas:synced")
	dirs := map[string]bool{}
	for h, size := range b.staged {
		dir := path(h)[:len(objectsDir)+3]
		if !dirs[dir] {
			if err := b.s.root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
			dirs[dir] = true
		}
		fresh := true
		if fi, err := b.s.root.Lstat(path(h)); err == nil { // of another size: damaged
			fresh = false
			b.s.grow(size - fi.Size())
		}
		if err := b.s.root.Rename(b.at(h), path(h)); err != nil {
			return err
		}
		if fresh {
			b.s.grow(size)
			b.s.add(1)
		}
		delete(b.staged, h)
	}
	failpoint.Hit("cas:renamed")
	dirs[objectsDir] = true
	var group errgroup.Group // as in sync: they share a commit of the journal
	group.SetLimit(16)
	for dir := range dirs {
		group.Go(func() error { return b.s.syncDir(dir) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("sync the store: %w", err)
	}
	return nil
}

func (s *Store) grow(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += n
}

func (s *Store) add(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count += n
}

func (s *Store) syncDir(name string) error {
	d, err := s.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// sync writes the staged files to the disk.
func (b *Batch) sync() error {
	if len(b.staged) > fewFiles {
		d, err := b.s.root.Open(stageDir)
		if err != nil {
			return err
		}
		return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
	}
	var group errgroup.Group // one commit of the file system's journal does for several files
	for h := range b.staged {
		group.Go(func() error {
			f, err := b.s.root.Open(b.at(h))
			if err != nil {
				return err
			}
			return errors.Join(f.Sync(), f.Close())
		})
	}
	return group.Wait()
}
