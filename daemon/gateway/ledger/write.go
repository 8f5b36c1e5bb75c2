package ledger

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"polis/daemon/store"
	"polis/internal/failpoint"
)

// put writes a line after those that could not be written before. l.mu is held.
func (l *Ledger) put(x line) error {
	b, err := json.Marshal(x)
	if err != nil {
		return fmt.Errorf("count a model request: %w", err)
	}
	if len(l.unsaved)+len(b) > maxUnsaved {
		l.unsaved, l.behind = nil, true
	}
	if !l.behind {
		l.unsaved = append(append(l.unsaved, b...), '\n')
	}
	return l.save()
}

// save writes what the files do not have yet. After an error it is tried again with the next line. l.mu is held.
func (l *Ledger) save() error {
	if l.journal == nil {
		return fmt.Errorf("count a model request: %w", os.ErrClosed)
	}
	if l.behind {
		return l.compact()
	}
	failpoint.Hit("ledger:line")
	n, err := l.journal.Write(l.unsaved)
	if err != nil {
		l.undo(n)
		return fmt.Errorf("count a model request: %w", err)
	}
	failpoint.Hit("ledger:written")
	l.size += int64(n)
	l.unsaved = l.unsaved[:0]
	if l.size >= l.max {
		return l.compact()
	}
	return nil
}

// undo removes a part of what was to be written. l.mu is held.
func (l *Ledger) undo(n int) {
	if n == 0 || l.journal.Truncate(l.size) == nil {
		return
	}
	// The next line must not continue the one that was cut short. Those before it have numbers, and count once.
	l.size += int64(n)
	if l.unsaved[0] != '\n' {
		l.unsaved = append([]byte{'\n'}, l.unsaved...)
	}
}

// compact writes the sums, and then empties the journal. After a crash in between, the sums say which lines they
// have. l.mu is held.
func (l *Ledger) compact() error {
	if len(l.sums) > MaxRows {
		l.sums.bound(MaxRows * 3 / 4)
	}
	k := kept{Seq: l.seq, Rows: l.sums.rows()}
	for id, r := range l.open {
		k.Open = append(k.Open, begun{id, r})
	}
	if err := store.WriteSummed(filepath.Join(l.dir, sumsFile), k); err != nil {
		return fmt.Errorf("sum the model counts: %w", err)
	}
	failpoint.Hit("ledger:summed")
	l.unsaved, l.behind = nil, false
	if err := l.journal.Truncate(0); err != nil {
		return fmt.Errorf("sum the model counts: %w", err)
	}
	failpoint.Hit("ledger:emptied")
	l.size = 0
	return nil
}
