package cas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"polis/daemon/host/private"
)

const (
	objectsDir = "objects"
	stageDir   = "stage"
)

// Store is the store of one directory. One process has it open; it is safe for concurrent use.
type Store struct {
	Objects
	turn chan struct{}
	// waiting is how many callers wait for the turn.
	waiting atomic.Int64

	mu    sync.Mutex
	used  int64 // bytes of all objects
	count int
	batch uint64
}

// Open opens the store in dir and makes it if it is missing. It removes what an interrupted batch
// left, and measures the store.
func Open(ctx context.Context, dir string) (*Store, error) {
	if err := private.Dir(dir); err != nil {
		return nil, fmt.Errorf("make the store: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	s := &Store{Objects: Objects{root: root}, turn: make(chan struct{}, 1)}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the store: %w", err), root.Close())
	}
	return s, nil
}

func (s *Store) prepare(ctx context.Context) error {
	for _, name := range []string{objectsDir, stageDir} {
		if err := s.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	left, err := s.names(stageDir)
	if err != nil {
		return err
	}
	for _, name := range left {
		if err := s.dropStage(name); err != nil {
			return err
		}
	}
	return s.each(ctx, func(_ Hash, fi fs.FileInfo) error {
		s.used += fi.Size()
		s.count++
		return nil
	})
}

// Used returns the number of bytes and of objects.
func (s *Store) Used() (bytes int64, objects int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.count
}

// names lists a directory of the store.
func (s *Store) names(dir string) ([]string, error) {
	d, err := s.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// each calls visit for every object. Other files are left alone.
func (s *Store) each(ctx context.Context, visit func(Hash, fs.FileInfo) error) error {
	dirs, err := s.names(objectsDir)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		names, err := s.names(objectsDir + "/" + dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			h, err := Parse(dir + name)
			if err != nil {
				continue
			}
			fi, err := s.root.Lstat(path(h))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if err := visit(h, fi); err != nil {
				return err
			}
		}
	}
	return nil
}

// path is where an object is.
func path(h Hash) string {
	name := h.String()
	return objectsDir + "/" + name[:2] + "/" + name[2:]
}

// take waits for the turn.
func (s *Store) take(ctx context.Context) (release func(), err error) {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the store: %w", context.Cause(ctx))
	}
}

// has reports whether an object of this size is there.
func (s *Store) has(h Hash, size int64) bool {
	fi, err := s.root.Lstat(path(h))
	return err == nil && fi.Mode().IsRegular() && fi.Size() == size
}

// intact reports whether an object has the content of its name.
func (s *Store) intact(h Hash) bool {
	_, err := s.Copy(io.Discard, h)
	return err == nil
}

// Swept is what Sweep removed.
type Swept struct {
	Objects int
	Bytes   int64
}

// Sweep removes every object that needed does not want. It is a method of a batch, so that nothing is
// added meanwhile; the batch must have added nothing. It ends soon after ctx does; the rest is left
// for the next time.
func (b *Batch) Sweep(ctx context.Context, needed func(Hash) bool) (Swept, error) {
	s := b.s
	var out Swept
	err := s.each(ctx, func(h Hash, fi fs.FileInfo) error {
		if needed(h) {
			return nil
		}
		if err := s.root.Remove(path(h)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		out.Objects++
		out.Bytes += fi.Size()
		s.mu.Lock()
		s.used -= fi.Size()
		s.count--
		s.mu.Unlock()
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("remove unneeded content: %w", err)
	}
	return out, nil
}
