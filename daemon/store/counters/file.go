package counters

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Name is the name of the file in the directory of the agent's logs.
const Name = "counters"

// File is the open file of one agent.
type File struct {
	f    *os.File
	last Record
}

// Open opens or makes the file in dir, and returns the last record of the agent that was added at
// created. The record is empty if there is none. damaged reports that the file was damaged, and is replaced.
func Open(dir string, created time.Time) (f *File, last Record, damaged bool, err error) {
	file, err := os.OpenFile(filepath.Join(dir, Name), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, Record{}, false, fmt.Errorf("open the counters: %w", err)
	}
	last, err = newest(file)
	if damaged = errors.Is(err, errTorn); damaged {
		err = nil
	}
	if err != nil {
		return nil, Record{}, false, errors.Join(fmt.Errorf("read the counters: %w", err), file.Close())
	}
	f = &File{f: file, last: Record{Created: created, Seq: last.Seq}}
	if last.Created.Equal(created) {
		f.last = last
	}
	return f, f.last, damaged, nil
}

// Read returns the last record of the file in dir, if it is of the agent that was added at created.
func Read(dir string, created time.Time) (Record, bool) {
	file, err := os.OpenFile(filepath.Join(dir, Name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return Record{}, false
	}
	defer file.Close()
	r, err := newest(file)
	return r, err == nil && r.Seq > 0 && r.Created.Equal(created)
}

// newest returns the newest complete record; errTorn if the file has content and none.
func newest(f *os.File) (Record, error) {
	fi, err := f.Stat()
	if err != nil {
		return Record{}, err
	}
	if !fi.Mode().IsRegular() {
		return Record{}, errors.New("not a regular file")
	}
	both := make([]byte, 2*slotSize)
	n, err := f.ReadAt(both, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Record{}, err
	}
	if n == 0 {
		return Record{}, nil
	}
	return choose(both[:n])
}

// choose returns the newest complete record of the file's content.
func choose(both []byte) (best Record, err error) {
	err = errTorn
	for at := 0; at+slotSize <= len(both); at += slotSize {
		if r, e := decode(both[at : at+slotSize]); e == nil && (err != nil || r.Seq > best.Seq) {
			best, err = r, nil
		}
	}
	return best, err
}

// Save writes a record, unless nothing has changed. Created and Seq of r are set by Save.
func (f *File) Save(r Record) error {
	r.Created, r.Seq = f.last.Created, f.last.Seq
	if r.Seq > 0 && equal(r, f.last) {
		return nil
	}
	r.Seq++
	slot, err := encode(r)
	if err != nil {
		return fmt.Errorf("save the counters: %w", err)
	}
	if _, err := f.f.WriteAt(slot, int64(r.Seq%2)*slotSize); err != nil {
		return fmt.Errorf("save the counters: %w", err)
	}
	f.last = r
	return nil
}

// equal reports whether two records count the same: no operation is without a count.
func equal(a, b Record) bool {
	if a.Counters != b.Counters || len(a.Times.LeaseWaits.Counts) != len(b.Times.LeaseWaits.Counts) {
		return false
	}
	for i, n := range a.Times.LeaseWaits.Counts {
		if n != b.Times.LeaseWaits.Counts[i] {
			return false
		}
	}
	return true
}

// Sync makes what was saved durable.
func (f *File) Sync() error { return f.f.Sync() }

// Close makes what was saved durable and closes the file.
func (f *File) Close() error { return errors.Join(f.f.Sync(), f.f.Close()) }
