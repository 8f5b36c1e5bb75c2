package cas

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Objects reads the objects of a store. Any process may, while another one has the store open; an object
// that nothing needs any more can go meanwhile.
type Objects struct{ root *os.Root }

// OpenObjects opens the store in dir for reading, and changes nothing.
func OpenObjects(dir string) (*Objects, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	return &Objects{root: root}, nil
}

// Close closes the store. No batch may be open.
func (s *Objects) Close() error { return s.root.Close() }

// Has reports whether an object is there. Its content is not read.
func (s *Objects) Has(h Hash) bool {
	fi, err := s.root.Lstat(path(h))
	return err == nil && fi.Mode().IsRegular()
}

// Reader reads an object and compares it with its hash. The last Read returns ErrCorrupt instead of
// io.EOF if the content is not what the name says: the caller must not use what it read before.
type Reader struct {
	want Hash
	f    *os.File
	sum  hash.Hash
	// Size is the number of bytes of the file.
	Size int64
}

// Size returns the number of bytes of an object; 0 if it is missing.
func (s *Objects) Size(h Hash) int64 {
	fi, err := s.root.Lstat(path(h))
	if err != nil {
		return 0
	}
	return fi.Size()
}

// Open opens an object, or returns ErrMissing. The caller closes it.
func (s *Objects) Open(h Hash) (*Reader, error) {
	f, err := s.File(h)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", h, err), f.Close())
	}
	return &Reader{want: h, f: f, sum: sha256.New(), Size: fi.Size()}, nil
}

// File opens an object without a comparison, or returns ErrMissing: the caller compares what it reads,
// and closes it.
func (s *Objects) File(h Hash) (*os.File, error) {
	f, err := s.root.OpenFile(path(h), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", h, ErrMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", h, err)
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = ErrCorrupt
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", h, err), f.Close())
	}
	return f, nil
}

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	n, err := r.f.Read(p)
	r.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && Hash(r.sum.Sum(nil)) != r.want {
		return n, fmt.Errorf("%s: %w", r.want, ErrCorrupt)
	}
	return n, err
}

// Close closes the object.
func (r *Reader) Close() error { return r.f.Close() }

// Bytes returns an object of at most limit bytes.
func (s *Objects) Bytes(h Hash, limit int64) ([]byte, error) {
	r, err := s.Open(h)
	if err != nil {
		return nil, err
	}
	defer r.f.Close()
	if r.Size > limit {
		return nil, fmt.Errorf("%s has %d bytes, and at most %d are read", h, r.Size, limit)
	}
	b := bytes.NewBuffer(make([]byte, 0, r.Size+bytes.MinRead)) // a list can have many MB: it is not copied while it grows
	if _, err := b.ReadFrom(r); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Copy writes an object to w. After an error, what w has is worthless.
func (s *Objects) Copy(w io.Writer, h Hash) (int64, error) {
	r, err := s.Open(h)
	if err != nil {
		return 0, err
	}
	defer r.f.Close()
	return io.Copy(w, r)
}
