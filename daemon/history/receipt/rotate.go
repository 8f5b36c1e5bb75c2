package receipt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"polis/daemon/api"
	"polis/internal/failpoint"
)

// names lists the files, oldest first.
func (l *Log) names() ([]string, error) {
	d, err := l.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	all, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(n string) bool { _, ok := firstOf(n); return !ok })
	slices.Sort(all)
	return all, nil
}

// fileName names the file whose first entry has this number, so that names sort as numbers do.
func fileName(first uint64) string { return fmt.Sprintf("%020d.log", first) }

func firstOf(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, ".log")
	if !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// rotate begins another file if there is none or it is full, and removes the oldest files if all are
// too large. l.mu is held.
func (l *Log) rotate() error {
	limit := max(l.MaxBytes(), files*minFile)
	if l.f != nil && l.size < limit/files {
		return nil
	}
	name := fileName(l.seq + 1)
	f, err := l.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if errors.Is(err, fs.ErrExist) && l.f != nil {
		return nil // the present file has no entry yet
	}
	if err != nil {
		return fmt.Errorf("begin a file of receipts: %w", err)
	}
	text := fmt.Sprintf("%s %d %s\n", magic, l.seq+1, l.head)
	if _, err = f.WriteString(text); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = l.syncDir()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("begin a file of receipts: %w", err), f.Close(), l.root.Remove(name))
	}
	if l.f != nil {
		if err := l.f.Close(); err != nil {
			l.Log.Warn("full file of receipts not closed", "workspace", l.Workspace, "err", err)
		}
	}
	l.f, l.size = f, int64(len(text))
	return l.drop(limit)
}

func (l *Log) syncDir() error {
	d, err := l.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// drop removes the oldest files that are over the limit. l.mu is held, and a file was just begun.
func (l *Log) drop(limit int64) error {
	names, err := l.names()
	if err != nil {
		return err
	}
	var total int64
	sizes := make([]int64, len(names))
	for i, n := range names {
		fi, err := l.root.Lstat(n)
		if err != nil {
			return err
		}
		sizes[i] = fi.Size()
		total += sizes[i]
	}
	gone := 0
	for gone < len(names)-1 && total > limit-limit/files { // room for the new one
		total -= sizes[gone]
		gone++
	}
	if gone == 0 {
		return nil
	}
	first, prev, err := l.header(names[gone])
	if err != nil {
		return err
	}
	// The entry comes first: without it, missing entries are a break of the chain.
	if err := l.append(Entry{Type: api.ReceiptDropped, Message: "the oldest receipts were removed: the log has reached its limit", Data: raw(map[string]any{"log": l.Name, "through": first - 1, "hash": prev})}); err != nil {
		return err
	}
	failpoint.Hit("receipt:dropped")
	for _, n := range names[:gone] {
		if err := l.root.Remove(n); err != nil {
			return err
		}
	}
	return nil
}

// damagedSuffix ends the name of a file that has no entry that could be read.
const damagedSuffix = ".damaged"

// setAside removes a file that has less than a header: a crash began it. Any other file without
// entries is renamed, which Verify reports.
func (l *Log) setAside(name string, size int64) error {
	if size < headerMax {
		return l.root.Remove(name)
	}
	l.Log.Error("file of receipts cannot be read", "workspace", l.Workspace, "path", name)
	l.first = append(l.first, Entry{Type: api.ReceiptBroken, Message: "a file of receipts could not be read", Data: raw(map[string]any{"file": name})})
	return l.root.Rename(name, name+damagedSuffix)
}

// damaged returns a file that was set aside, "" for none.
func (l *Log) damaged() (string, error) {
	d, err := l.root.Open(".")
	if err != nil {
		return "", err
	}
	defer d.Close()
	all, err := d.Readdirnames(-1)
	if err != nil {
		return "", err
	}
	if i := slices.IndexFunc(all, func(n string) bool { return strings.HasSuffix(n, damagedSuffix) }); i >= 0 {
		return all[i], nil
	}
	return "", nil
}
