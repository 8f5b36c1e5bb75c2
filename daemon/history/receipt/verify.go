package receipt

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"polis/daemon/api"
)

// Each calls visit with every entry, oldest first, and compares each with its hash. The first that
// does not match ends it: broken is its number and the reason. What is appended meanwhile may be left
// out.
func (l *Log) Each(ctx context.Context, visit func(*Receipt) error) (broken *api.BrokenReceipt, err error) {
	l.mu.Lock()
	if l.root == nil {
		l.mu.Unlock()
		return nil, errClosed
	}
	names, err := l.names()
	bad, derr := l.damaged()
	end := l.seq
	l.mu.Unlock()
	if err = errors.Join(err, derr); err != nil {
		return nil, err
	}
	if bad != "" {
		first, _ := firstOf(strings.TrimSuffix(bad, damagedSuffix))
		return &api.BrokenReceipt{Log: l.Name, Seq: first, File: bad, Why: "the file could not be read"}, nil
	}
	w := walk{log: l.Name, visit: visit, end: end}
	for i, name := range names {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		b, err := w.file(l, name, i == 0)
		if b != nil || err != nil {
			return b, err
		}
	}
	return w.missing(), nil
}

// walk is one Each.
type walk struct {
	log   string
	visit func(*Receipt) error
	seq   uint64
	head  string
	end   uint64 // entries after it are being written
	// first and before are what the oldest file begins with: an entry must name them, if it is not
	// the first one.
	first    uint64
	before   string
	admitted bool
}

func (w *walk) file(l *Log, name string, oldest bool) (*api.BrokenReceipt, error) {
	f, err := l.openFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, MaxLine)
	broken := func(format string, args ...any) *api.BrokenReceipt {
		return &api.BrokenReceipt{Log: w.log, Seq: w.seq + 1, File: name, Why: fmt.Sprintf(format, args...)}
	}
	line, err := readLine(r)
	if err != nil {
		return broken("the file has no header"), nil //nolint:nilerr // that is the finding
	}
	first, prev, err := parseHeader(line)
	if err != nil {
		return broken("the file has no header"), nil //nolint:nilerr // that is the finding
	}
	if named, _ := firstOf(name); named != first {
		return broken("the file begins with entry %d", first), nil
	}
	if oldest {
		w.seq, w.head, w.first, w.before = first-1, prev, first, prev
		w.admitted = first == 1 && prev == zero
	}
	if first != w.seq+1 || prev != w.head {
		return broken("the file before it does not end where this one begins"), nil
	}
	for w.seq < w.end {
		line, err := readLine(r)
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return broken("%v", err), nil
		}
		e, err := parseLine(line, w.head)
		if err != nil {
			return broken("%v", err), nil
		}
		if e.Seq != w.seq+1 {
			return broken("it has the number %d", e.Seq), nil
		}
		w.seq, w.head = e.Seq, e.Hash
		w.admit(&e)
		if err := w.visit(&e); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// admit notes an entry that accounts for the removal of everything before the oldest file.
func (w *walk) admit(e *Receipt) {
	if e.Type != api.ReceiptDropped {
		return
	}
	var d struct {
		Through uint64 `json:"through"`
		Hash    string `json:"hash"`
	}
	if json.Unmarshal(e.Data, &d) == nil && d.Through+1 == w.first && d.Hash == w.before {
		w.admitted = true
	}
}

// missing reports entries that were removed without an entry about it, at either end.
func (w *walk) missing() *api.BrokenReceipt {
	switch {
	case w.seq < w.end:
		return &api.BrokenReceipt{Log: w.log, Seq: w.seq + 1, Why: fmt.Sprintf("entries up to %d are missing", w.end)}
	case !w.admitted && w.end > 0:
		return &api.BrokenReceipt{Log: w.log, Seq: 1, Why: fmt.Sprintf("entries before %d are missing, and no entry says that the log removed them", w.first)}
	}
	return nil
}
