package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"polis/daemon/store"
)

const (
	journalFile = "models.log"
	sumsFile    = "models.json"
	// maxJournal is the size from which the journal is summed, in bytes.
	maxJournal = 1 << 20
	// maxLine bounds a line of the journal, in bytes.
	maxLine = 4 << 10
)

// Ledger is the ledger of one agent, for the one process that writes it.
type Ledger struct {
	dir string

	mu      sync.Mutex
	sums    sums
	models  map[string]bool
	seq     uint64
	journal *os.File
	size    int64
}

// line is a request in the journal. Seq is its number: a line that the sums have is skipped.
type line struct {
	Seq uint64 `json:"seq"`
	Row
}

// kept is the file of sums.
type kept struct {
	Seq  uint64 `json:"seq"`
	Rows []Row  `json:"rows"`
}

// Open opens the ledger in dir, which must be a directory of root's.
func Open(dir string) (*Ledger, error) {
	l := &Ledger{dir: dir}
	if err := store.Sweep(filepath.Join(dir, sumsFile)); err != nil {
		return nil, fmt.Errorf("open the model counts: %w", err)
	}
	r := Reader{Dir: dir}
	if err := r.refresh(); err != nil {
		return nil, err
	}
	l.sums, l.models, l.seq = r.sums, r.sums.models(), r.seq
	var err error
	l.journal, err = os.OpenFile(filepath.Join(dir, journalFile), os.O_CREATE|os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the model counts: %w", err)
	}
	if l.size, err = l.journal.Seek(0, io.SeekEnd); err != nil {
		return nil, errors.Join(fmt.Errorf("open the model counts: %w", err), l.journal.Close())
	}
	if r.damaged { // the last line was cut short: the next must not continue it
		if err := l.compact(); err != nil {
			return nil, errors.Join(err, l.journal.Close())
		}
	}
	return l, nil
}

// Add adds the counts of a request. With an error they are counted in memory only.
func (l *Ledger) Add(r Row) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	r.Model = l.modelOf(r)
	l.sums.add(r)
	if l.journal == nil {
		return fmt.Errorf("count a model request: %w", os.ErrClosed)
	}
	b, err := json.Marshal(line{l.seq, r})
	if err != nil {
		return fmt.Errorf("count a model request: %w", err)
	}
	n, err := l.journal.Write(append(b, '\n'))
	l.size += int64(n)
	if err != nil {
		err = fmt.Errorf("count a model request: %w", err)
		if n > 0 {
			err = errors.Join(err, l.compact())
		}
		return err
	}
	if l.size >= maxJournal {
		return l.compact()
	}
	return nil
}

// compact writes the sums, and then empties the journal. After a crash in between, the sums say which
// lines they have.
func (l *Ledger) compact() error {
	if len(l.sums) > MaxRows {
		l.sums.bound(MaxRows * 3 / 4)
	}
	if err := store.WriteSummed(filepath.Join(l.dir, sumsFile), kept{l.seq, l.sums.rows()}); err != nil {
		return fmt.Errorf("sum the model counts: %w", err)
	}
	if err := l.journal.Truncate(0); err != nil {
		return fmt.Errorf("sum the model counts: %w", err)
	}
	l.size = 0
	return nil
}

// Sum returns the counts of the rows for which match returns true.
func (l *Ledger) Sum(match func(Key) bool) Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	var c Counts
	for k, v := range l.sums {
		if match(k) {
			c.Add(v)
		}
	}
	return c
}

// Close closes the files.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.journal == nil {
		return nil
	}
	err := l.journal.Close()
	l.journal = nil
	return err
}
