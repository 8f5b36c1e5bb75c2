package ledger

import (
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
	// maxUnsaved bounds the lines that wait for room on the disk, in bytes.
	maxUnsaved = 64 << 10
)

// Ledger is the ledger of one agent, for the one process that writes it.
type Ledger struct {
	dir string
	max int64 // maxJournal

	mu     sync.Mutex
	sums   sums
	models map[string]bool
	seq    uint64
	open   map[uint64]Row // requests that have begun, by their numbers
	// recovered is what the process before left.
	recovered Recovered
	journal   *os.File
	size      int64
	unsaved   []byte // lines that the journal does not have yet
	behind    bool   // there are more of them: only the sums can save them
}

// Recovered is what Open has found of a process that was killed.
type Recovered struct {
	// Open are the requests that had begun and not ended. They are counted with what Begin got.
	Open int
	// Unread are lines that were cut short. They are left out.
	Unread int
}

// line is a line of the journal. Seq is its number: a line that the sums have is skipped.
type line struct {
	Seq uint64 `json:"seq"`
	// Began: the request has begun; the row is what counts if the line with its end is missing. Of is the number of
	// the line that began a request, in that of its end.
	Began bool   `json:"began,omitempty"`
	Of    uint64 `json:"of,omitempty"`
	Row
}

// kept is the file of sums.
type kept struct {
	Seq  uint64  `json:"seq"`
	Rows []Row   `json:"rows"`
	Open []begun `json:"open,omitempty"`
}

type begun struct {
	ID uint64 `json:"id"`
	Row
}

// Open opens the ledger in dir, which must be a directory of root's. Requests that were open when the process
// before ended are counted.
func Open(dir string) (*Ledger, error) {
	l := &Ledger{dir: dir, max: maxJournal}
	if err := store.Sweep(filepath.Join(dir, sumsFile)); err != nil {
		return nil, fmt.Errorf("open the model counts: %w", err)
	}
	r := Reader{Dir: dir}
	if err := r.refresh(); err != nil {
		return nil, err
	}
	l.sums, l.models, l.seq = r.sums, r.sums.models(), r.seq
	l.recovered = Recovered{Open: len(r.open), Unread: r.unread}
	if r.tail {
		l.recovered.Unread++
	}
	var err error
	l.journal, err = os.OpenFile(filepath.Join(dir, journalFile), os.O_CREATE|os.O_RDWR|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the model counts: %w", err)
	}
	if l.size, err = l.journal.Seek(0, io.SeekEnd); err != nil {
		return nil, errors.Join(fmt.Errorf("open the model counts: %w", err), l.journal.Close())
	}
	for _, row := range r.open {
		l.seq++
		row.Model = l.modelOf(row)
		l.sums.add(row)
	}
	l.open = map[uint64]Row{}
	if l.recovered != (Recovered{}) { // and the next line must not continue the last one
		if err := l.compact(); err != nil {
			return nil, errors.Join(err, l.journal.Close())
		}
	}
	return l, nil
}

// Recovered returns what Open has found.
func (l *Ledger) Recovered() Recovered { return l.recovered }

// Begin notes a request before it is sent, and returns its number for End. r is what is counted if this process is
// killed before the end. With an error it is noted in memory only, and saved with the next row that can be written.
func (l *Ledger) Begin(r Row) (id uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	l.open[l.seq] = r
	return l.seq, l.put(line{Seq: l.seq, Began: true, Row: r})
}

// Add adds the counts of a request that has no number, because it was not sent.
func (l *Ledger) Add(r Row) error { return l.End(0, r) }

// End adds the counts of a request. With an error they are counted in memory only, and saved with the next row that
// can be written.
func (l *Ledger) End(id uint64, r Row) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	r.Model = l.modelOf(r)
	l.sums.add(r)
	delete(l.open, id)
	return l.put(line{Seq: l.seq, Of: id, Row: r})
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

// Close saves what could not be written before, and closes the files.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.journal == nil {
		return nil
	}
	err := l.save()
	if err != nil { // the sums can be smaller than the lines
		if cerr := l.compact(); cerr == nil {
			err = nil
		}
	}
	err = errors.Join(err, l.journal.Close())
	l.journal = nil
	return err
}
