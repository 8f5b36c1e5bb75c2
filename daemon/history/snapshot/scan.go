package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"polis/daemon/history/cas"
)

const (
	// maxDepth is how deep a tree is read.
	maxDepth = 256
	// tries is how often a file is read that changes meanwhile.
	tries = 3
)

var (
	// ErrTooLarge reports a tree that exceeds a bound.
	ErrTooLarge = errors.New("the tree is too large")
	// ErrUnsteady reports a file that changed each time it was read.
	ErrUnsteady = errors.New("it changes while it is read")
)

// Sink takes contents and returns their hashes. A cas.Batch stores them; Hashes does not.
type Sink interface {
	Put(f *os.File) (cas.Hash, int64, error)
	PutBytes(p []byte) (cas.Hash, error)
}

// Hashes is a Sink that stores nothing.
type Hashes struct{}

// Put returns the hash of f's content.
func (Hashes) Put(f *os.File) (cas.Hash, int64, error) { return cas.SumFile(f) }

// PutBytes returns the hash of p.
func (Hashes) PutBytes(p []byte) (cas.Hash, error) { return cas.Sum(p), nil }

// Scan reads a tree. Assign the fields, then call Run.
type Scan struct {
	// Root is the directory. Files with these names directly in it, and all below, are left out.
	Root    *os.File
	Exclude []string
	// Skip reports whether a path, and all below a directory, is left out. Nil leaves out nothing.
	Skip func(path string, dir bool) bool
	// Sink takes the contents; nil: none is read, and entries have no hashes.
	Sink Sink
	// Readers is how many contents are read at a time; 0: as many as there are processors, and two at least.
	Readers int
	// MaxFiles bounds the number of entries, MaxBytes their sizes together, also those of holes; 0: no
	// bound.
	MaxFiles int
	MaxBytes int64
	// Written, if not nil, is the directory whose files have the content that is written through Root:
	// Root itself, or a layer of it. Then Writable has the files, after Run, that an open file or a
	// mapping can still change.
	Written  *os.File
	Writable []string
	// Linked has the files with more names than one, after Run.
	Linked []string
	// Loose leaves out what changes while it is read, instead of an error: the tree need not be still.
	// The caller reads it again.
	Loose bool
	// Left is the number of pipes, sockets and devices that were left out, after Run.
	Left int

	out   []*Entry // of the goroutine that lists; the readers fill the entries they are sent
	bytes int64
	mu    sync.Mutex // of Writable and Linked, which the readers fill
}

// Run returns the state of the tree. The tree must be still meanwhile: a file that is not is
// ErrUnsteady. What a directory contains that cannot be read is an error.
func (s *Scan) Run(ctx context.Context) (*Manifest, error) {
	return s.collect(ctx, func(ctx context.Context, work chan<- *Entry) error {
		top, err := openBelow(s.Root, ".", unix.O_RDONLY|unix.O_DIRECTORY) // with a position of its own
		if err != nil {
			return err
		}
		defer top.Close()
		return s.directory(ctx, top, "", 0, work)
	})
}

// collect reads what find sends to the readers, and returns it with what find lists, in order.
func (s *Scan) collect(ctx context.Context, find func(context.Context, chan<- *Entry) error) (*Manifest, error) {
	group, ctx := errgroup.WithContext(ctx)
	work := make(chan *Entry, 256)
	group.Go(func() error {
		defer close(work)
		return find(ctx, work)
	})
	for range cmp.Or(s.Readers, max(runtime.GOMAXPROCS(0), 2)) {
		group.Go(func() error {
			for e := range work {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				err := s.read(e)
				if err != nil && s.Loose && changes(err) {
					e.Kind, err = 0, nil
				}
				if err != nil {
					return fmt.Errorf("read %q: %w", e.Path, err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	m := &Manifest{Entries: make([]Entry, 0, len(s.out))}
	for _, e := range s.out {
		if e.Kind != 0 {
			m.Entries = append(m.Entries, *e)
		}
	}
	m.Sort()
	return m, nil
}

// directory lists a directory, and sends what has content to the readers.
func (s *Scan) directory(ctx context.Context, dir *os.File, path string, depth int, work chan<- *Entry) error {
	if depth > maxDepth {
		return fmt.Errorf("%q is more than %d directories deep: %w", path, maxDepth, ErrTooLarge)
	}
	for {
		names, err := dir.Readdirnames(1024)
		for _, name := range names {
			sub := name
			if path != "" {
				sub = path + "/" + name
			} else if s.excluded(name) {
				continue
			}
			if err := s.enter(ctx, dir, name, sub, depth, false, work); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list %q: %w", path, err)
		}
	}
}

// changes reports whether an error is one of a tree that is not still.
func changes(err error) bool {
	for _, e := range []error{ErrUnsteady, fs.ErrInvalid, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ESTALE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (s *Scan) excluded(name string) bool {
	for _, x := range s.Exclude {
		if x == name {
			return true
		}
	}
	return false
}

// enter adds an entry. flat leaves out what is below a directory.
func (s *Scan) enter(ctx context.Context, dir *os.File, name, path string, depth int, flat bool, work chan<- *Entry) error {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return fmt.Errorf("read %q: %w", path, err)
	}
	kind := st.Mode & unix.S_IFMT
	if s.Skip != nil && s.Skip(path, kind == unix.S_IFDIR) {
		return nil
	}
	e := &Entry{Path: path, Mode: st.Mode & 0o7777}
	switch kind {
	case unix.S_IFREG:
		e.Kind, e.Size = File, st.Size
	case unix.S_IFLNK:
		e.Kind, e.Mode = Link, 0
	case unix.S_IFDIR:
		e.Kind = Dir
	default:
		s.Left++
		return nil
	}
	if len(path) > MaxPath {
		return fmt.Errorf("path %.200q has %d bytes: %w", path, len(path), ErrTooLarge)
	}
	s.out = append(s.out, e)
	s.bytes += e.Size
	switch {
	case s.MaxFiles > 0 && len(s.out) > s.MaxFiles:
		return fmt.Errorf("it has more than %d files and directories: %w", s.MaxFiles, ErrTooLarge)
	case s.MaxBytes > 0 && s.bytes > s.MaxBytes:
		return fmt.Errorf("its files have more than %d bytes with %q: %w", s.MaxBytes, path, ErrTooLarge)
	}
	if kind != unix.S_IFDIR {
		select {
		case work <- e:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	fd, err := openBelow(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.EXDEV) { // something is mounted there
		return nil
	}
	if err != nil && s.Loose && changes(err) {
		e.Kind = 0
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %q: %w", path, err)
	}
	defer fd.Close()
	if err := s.attrs(fd, e); err != nil {
		return fmt.Errorf("read %q: %w", path, err)
	}
	if flat {
		return nil
	}
	return s.directory(ctx, fd, path, depth+1, work)
}

func (s *Scan) attrs(f *os.File, e *Entry) error {
	if s.Sink == nil {
		return nil
	}
	all, err := readAttrs(int(f.Fd()))
	if err != nil || len(all) == 0 {
		return err
	}
	e.Attrs, err = s.Sink.PutBytes(EncodeAttrs(all))
	return err
}
