package cas

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// smallFile is the largest file that is read into memory, in bytes.
	smallFile = 1 << 20
	// fewFiles is how many files are synced one by one; for more, the file system is.
	fewFiles = 64
)

// Batch adds objects to a store. Put may be called by several goroutines at once; Commit and Close
// by one, after them.
type Batch struct {
	// Verify makes the batch read an object that is there already, and replace it if it is damaged:
	// what is added is about to have its only copy here. Set it before the first Put.
	Verify bool
	// Measure makes the batch count what has no room, without storing it, so that Commit returns how much that is: until it
	// is more than the bound. Set it before the first Put.
	Measure bool

	s       *Store
	name    string // its directory below stageDir
	release func()
	limit   int64

	mu     sync.Mutex
	staged map[Hash]int64 // with the size
	bytes  int64
	over   map[Hash]bool // what was counted and not stored
	beyond int64         // its bytes
	made   bool          // the directory is there
	n      int
}

// Begin opens a batch, after any other batch. The store will have at most limit bytes;
// 0 is no limit. The caller closes the batch.
func (s *Store) Begin(ctx context.Context, limit int64) (*Batch, error) {
	release, err := s.take(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batch++
	return &Batch{s: s, name: strconv.FormatUint(s.batch, 10), release: release, limit: limit, staged: map[Hash]int64{}}, nil
}

// Wanted reports whether another batch waits for the end of this one.
func (b *Batch) Wanted() bool { return b.s.waiting.Load() > 0 }

// Added returns the number of bytes that the batch adds to the store.
func (b *Batch) Added() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes
}

var buffers = sync.Pool{New: func() any { b := make([]byte, smallFile+1); return &b }}

// Put adds the content of f, from its start. A file that changes meanwhile gives an object that is
// complete and has the hash that is returned.
func (b *Batch) Put(f *os.File) (Hash, int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return Hash{}, 0, err
	}
	if fi.Size() <= smallFile {
		buf := buffers.Get().(*[]byte)
		defer buffers.Put(buf)
		n, err := io.ReadFull(io.NewSectionReader(f, 0, int64(len(*buf))), *buf)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return Hash{}, 0, err
		}
		if n <= smallFile {
			h, err := b.PutBytes((*buf)[:n])
			return h, int64(n), err
		}
	}
	return b.putLarge(f)
}

// putLarge reads a file to get its hash, and once more if the store does not have it.
func (b *Batch) putLarge(f *os.File) (Hash, int64, error) {
	h, size, err := SumFile(f)
	if err != nil {
		return Hash{}, 0, err
	}
	if b.has(h, size) {
		return h, size, nil
	}
	if over, err := b.room(h, size); err != nil || over {
		return h, size, err
	}
	to, name, err := b.create()
	if err != nil {
		return Hash{}, 0, err
	}
	h, size, err = fill(to, f, size)
	if err = errors.Join(err, to.Close()); err != nil {
		return Hash{}, 0, errors.Join(err, b.s.root.Remove(name))
	}
	return h, size, b.keep(name, h, size)
}

// fill makes to a clone of f, if the file system can make one, else a copy of at most limit bytes,
// and returns what it is.
func fill(to, f *os.File, limit int64) (Hash, int64, error) {
	if unix.IoctlFileClone(int(to.Fd()), int(f.Fd())) == nil {
		return SumFile(to)
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), io.NewSectionReader(f, 0, limit))
	return Hash(sum.Sum(nil)), n, err
}

// SumFile returns the hash and the size of the content that a file has now. What is appended
// meanwhile is not read.
func SumFile(f *os.File) (Hash, int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return Hash{}, 0, err
	}
	sum := sha256.New()
	n, err := io.Copy(sum, io.NewSectionReader(f, 0, fi.Size()))
	return Hash(sum.Sum(nil)), n, err
}

// PutBytes adds p.
func (b *Batch) PutBytes(p []byte) (Hash, error) {
	h := Sum(p)
	if b.has(h, int64(len(p))) {
		return h, nil
	}
	if over, err := b.room(h, int64(len(p))); err != nil || over {
		return h, err
	}
	to, name, err := b.create()
	if err != nil {
		return Hash{}, err
	}
	_, err = to.Write(p)
	if err = errors.Join(err, to.Close()); err != nil {
		return Hash{}, errors.Join(err, b.s.root.Remove(name))
	}
	return h, b.keep(name, h, int64(len(p)))
}

func (b *Batch) has(h Hash, size int64) bool {
	b.mu.Lock()
	_, there := b.staged[h]
	there = there || b.over[h]
	b.mu.Unlock()
	return there || b.s.has(h, size) && (!b.Verify || b.s.intact(h))
}

// room reports whether an object of this size is only counted: there is no room for it.
func (b *Batch) room(h Hash, size int64) (over bool, err error) {
	used, _ := b.s.Used()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit <= 0 || used+b.bytes+b.beyond+size <= b.limit {
		return false, nil
	}
	full := &FullError{Need: b.bytes + b.beyond + size, Used: used, Limit: b.limit}
	if !b.Measure || full.Need > b.limit {
		return false, full
	}
	if b.over == nil {
		b.over = map[Hash]bool{}
	}
	b.over[h] = true
	b.beyond += size
	return true, nil
}

// full returns the error for what was only counted.
func (b *Batch) full() error {
	if b.beyond == 0 {
		return nil
	}
	used, _ := b.s.Used()
	return &FullError{Need: b.bytes + b.beyond, Used: used, Limit: b.limit}
}

// create makes a file, and returns its name.
func (b *Batch) create() (f *os.File, name string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dir := stageDir + "/" + b.name
	if !b.made {
		if err := b.s.root.Mkdir(dir, 0o700); err != nil {
			return nil, "", err
		}
		b.made = true
	}
	b.n++
	name = dir + "/new-" + strconv.Itoa(b.n)
	f, err = b.s.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o400)
	return f, name, err
}

// keep gives a file that was filled the name of its hash, in the batch.
func (b *Batch) keep(name string, h Hash, size int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, there := b.staged[h]; there {
		return b.s.root.Remove(name)
	}
	if err := b.s.root.Rename(name, b.at(h)); err != nil {
		return err
	}
	b.staged[h] = size
	b.bytes += size
	return nil
}

func (b *Batch) at(h Hash) string { return stageDir + "/" + b.name + "/" + h.String() }

// Close ends the batch and removes what was not committed.
func (b *Batch) Close() error {
	defer b.release()
	if !b.made {
		return nil
	}
	return b.s.dropStage(b.name)
}

func (s *Store) dropStage(name string) error {
	dir := stageDir + "/" + name
	names, err := s.names(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := s.root.Remove(dir + "/" + n); err != nil {
			return err
		}
	}
	return s.root.Remove(dir)
}
