package ledger

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"polis/daemon/api"
	"polis/daemon/store"
)

// Read returns the rows of the ledger in dir, which another process may be writing. A directory
// without one has no rows.
func Read(dir string) ([]Row, error) {
	r := Reader{Dir: dir}
	err := r.refresh()
	return r.sums.rows(), err
}

// Reader reads the ledger in Dir, which another process may be writing, again and again: each time only
// what is new. It is safe for concurrent use.
type Reader struct {
	Dir string

	mu      sync.Mutex
	sums    sums
	seq     uint64
	file    stamp          // of the sums that were read
	journal uint64         // the inode of the journal that was read
	at      int64          // bytes of it that were read
	unread  int            // lines of the journal that were cut short
	tail    bool           // it ends with one
	open    map[uint64]Row // requests that have begun
}

// stamp identifies a version of a file that is only replaced; the zero value is one that is missing.
type stamp struct {
	ino, dev    uint64
	size        int64
	seconds, ns int64
}

// Each calls fn for each row, in no order. fn must not call the Reader.
func (r *Reader) Each(fn func(Row)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.refresh(); err != nil {
		return err
	}
	for k, c := range r.sums {
		fn(Row{k, c})
	}
	return nil
}

// EachOpen does so with the requests that have begun, too, as they count if the writer was killed.
func (r *Reader) EachOpen(fn func(Row)) error {
	if err := r.Each(fn); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, row := range r.open {
		fn(row)
	}
	return nil
}

// refresh reads what is new. Between reading both files, the writer can have summed the journal: then the
// sums have changed, and both are read again.
func (r *Reader) refresh() error {
	for range 10 {
		file, err := stampOf(filepath.Join(r.Dir, sumsFile))
		if err != nil {
			return err
		}
		if r.sums == nil || file != r.file {
			if err := r.readSums(); err != nil {
				return err
			}
			r.file, r.at, r.unread = file, 0, 0
		}
		if err := r.readJournal(); err != nil {
			r.sums = nil // all is read the next time
			return err
		}
		after, err := stampOf(filepath.Join(r.Dir, sumsFile))
		if err != nil {
			return err
		}
		if after == r.file {
			break
		}
	}
	return nil
}

func stampOf(path string) (stamp, error) {
	var st syscall.Stat_t
	err := syscall.Lstat(path, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return stamp{st.Ino, st.Dev, st.Size, st.Mtim.Sec, st.Mtim.Nsec}, nil
	}
	if err != nil {
		return stamp{}, fmt.Errorf("read the model counts: %w", &os.PathError{Op: "stat", Path: path, Err: err})
	}
	return stamp{st.Ino, st.Dev, st.Size, st.Mtim.Sec, st.Mtim.Nsec}, nil
}

func (r *Reader) readSums() error {
	var k kept
	err := store.ReadSummed(filepath.Join(r.Dir, sumsFile), &k)
	if errors.Is(err, store.ErrCorrupt) { // it is not replaced by an empty one, which would renew a spent budget
		return api.Errorf(api.CodeModelCountsCorrupt, "read the model counts: %w", err).
			WithHint("copy it back from a backup; or move it and %s away, and all counts of the agent begin at 0; then reload polisd (SIGHUP)", journalFile)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the model counts: %w", err)
	}
	r.sums, r.seq, r.open = sums{}, k.Seq, map[uint64]Row{}
	for _, row := range k.Rows {
		r.sums.add(row)
	}
	for _, b := range k.Open {
		r.open[b.ID] = b.Row
	}
	return nil
}

// readJournal reads the lines after those that were read. Lines that are in the sums are skipped by their
// numbers.
func (r *Reader) readJournal() error {
	f, err := os.OpenFile(filepath.Join(r.Dir, journalFile), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the model counts: %w", err)
	}
	defer f.Close()
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("read the model counts: %w", err)
	}
	if st.Ino != r.journal || st.Size < r.at {
		if r.at > 0 { // it was emptied or replaced
			if err := r.readSums(); err != nil {
				return err
			}
		}
		r.journal, r.at, r.unread = st.Ino, 0, 0
	}
	if _, err := f.Seek(r.at, io.SeekStart); err != nil {
		return fmt.Errorf("read the model counts: %w", err)
	}
	whole, unread, tail, err := scan(f, func(l line) {
		if l.Seq <= r.seq {
			return
		}
		r.seq = l.Seq
		if l.Began {
			r.open[l.Seq] = l.Row
			return
		}
		delete(r.open, l.Of)
		r.sums.add(l.Row)
	})
	r.at += whole
	r.unread += unread
	r.tail = tail
	return err
}

// scan reads the lines of a journal, and returns how many bytes the whole ones have, how many of those cannot be read,
// and whether a part of another one follows: they were cut short by a crash or a full disk, and are left out.
func scan(r io.Reader, add func(line)) (whole int64, unread int, tail bool, err error) {
	b := bufio.NewReaderSize(r, maxLine)
	var long int64 // bytes of a line that does not fit
	for {
		text, err := b.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return whole, unread, len(text) > 0 || long > 0, nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			long += int64(len(text))
			continue
		}
		if err != nil {
			return whole, unread, false, fmt.Errorf("read the model counts: %w", err)
		}
		cut := long > 0
		whole, long = whole+long+int64(len(text)), 0
		var l line
		switch {
		case len(text) == 1 && !cut: // between a line that was cut short and the next one
		case cut || json.Unmarshal(text, &l) != nil || l.Seq == 0:
			unread++
		default:
			add(l)
		}
	}
}
