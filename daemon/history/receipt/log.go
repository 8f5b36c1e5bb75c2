package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/history/cas"
	"polis/daemon/host/private"
	"polis/internal/failpoint"
)

const (
	magic = "polis-receipts 1"
	// MaxLine bounds a line, in bytes.
	MaxLine = 64 << 10
	// maxData bounds the data of one entry, in bytes, and maxMessage its message.
	maxData    = 40 << 10
	maxMessage = 2000
	maxEntry   = MaxLine - 100
	// files is into how many files the limit is split.
	files   = 8
	minFile = 64 << 10
)

var zero = cas.Hash{}.String()

// Log is one log. Assign the fields, then Open. It is safe for concurrent use.
type Log struct {
	// Dir is made if it is missing; only root may search it.
	Dir string
	// Name is the agent's, or "" for the log of a workspace.
	Name      string
	Workspace string
	// MaxBytes bounds the log.
	MaxBytes func() int64
	Log      *slog.Logger
	Now      func() time.Time
	// Began is that of the Store; zero for the log of an agent.
	Began time.Time

	mu   sync.Mutex
	root *os.Root
	f    *os.File // the last file
	size int64    // of f
	seq  uint64   // of the last entry
	head string   // its hash
	// torn: the file may be longer than size, because an entry could not be written or cut.
	torn bool
	// first are entries that the next append writes before its own.
	first []Entry
	cut   int64 // bytes of an incomplete entry that Open cut
	ended bool  // the last entry is that of the end
}

// Open opens the log, and cuts what a crash left of an entry. The first Append records both.
func (l *Log) Open() (err error) {
	if err := private.Dir(l.Dir); err != nil {
		return fmt.Errorf("open the receipts: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.root, err = os.OpenRoot(l.Dir); err != nil {
		return fmt.Errorf("open the receipts: %w", err)
	}
	if err = l.open(); err != nil {
		err = errors.Join(fmt.Errorf("open the receipts: %w", err), l.shut())
	}
	return err
}

func (l *Log) shut() error {
	var err error
	if l.f != nil {
		err = l.f.Close()
	}
	return errors.Join(err, l.root.Close())
}

func (l *Log) open() error {
	names, err := l.names()
	if err != nil {
		return err
	}
	l.head = zero
	l.f, l.size, l.seq, l.torn, l.ended = nil, 0, 0, false, false
	l.first, l.cut = nil, 0
	data := map[string]any{"clean": true}
	if !l.Began.IsZero() {
		data["since"] = l.Began.UTC()
	}
	for len(names) > 0 {
		last := names[len(names)-1]
		t, err := l.tail(last)
		if errors.Is(err, errHeader) {
			if err := l.setAside(last, t.size); err != nil {
				return err
			}
			names = names[:len(names)-1]
			continue
		}
		if err != nil {
			return err
		}
		l.seq, l.head = t.seq, t.head
		data["clean"] = t.last == api.ReceiptClosed || t.seq == 0
		if t.cut > 0 {
			l.cut, data["cut"] = t.cut, t.cut
			l.Log.Warn("incomplete receipt cut", "workspace", l.Workspace, "path", last, "bytes", t.cut)
		}
		if l.f, err = l.root.OpenFile(last, os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0); err != nil {
			return err
		}
		if err := errors.Join(l.f.Truncate(t.size), l.f.Sync()); err != nil {
			return err
		}
		l.size = t.size
		if t.broken {
			l.Log.Error("receipts do not match their hashes", "workspace", l.Workspace, "path", last)
			l.first = append(l.first, Entry{Type: api.ReceiptBroken, Message: "entries before this one do not match their hashes", Data: raw(map[string]any{"file": last})})
		}
		break
	}
	l.first = append(l.first, Entry{Type: api.ReceiptOpened, Message: "polisd opened the receipts", Data: raw(data)})
	return nil
}

// Close records the end and closes the log.
func (l *Log) Close() error {
	err := l.end("polisd ends")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.root == nil {
		return nil
	}
	err = errors.Join(err, l.shut())
	l.root = nil
	return err
}

// end records the end, if anything was recorded since Open; the log stays open.
func (l *Log) end(why string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.root == nil || len(l.first) > 0 || l.ended {
		return nil
	}
	err := l.append(Entry{Type: api.ReceiptClosed, Message: why})
	l.ended = err == nil
	return err
}

// abandon closes the log without an entry.
func (l *Log) abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.root == nil {
		return
	}
	if err := l.shut(); err != nil {
		l.Log.Warn("log of receipts not closed", "workspace", l.Workspace, "agent", l.Name, "err", err)
	}
	l.root = nil
}

// untouched reports whether nothing was written since Open.
func (l *Log) untouched() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.first) > 0
}

// Entry is one receipt.
type Entry struct {
	Seq     uint64          `json:"seq"`
	Time    time.Time       `json:"time"`
	Type    string          `json:"type"`
	Agent   string          `json:"agent,omitempty"`
	Code    api.Code        `json:"code,omitempty"`
	Message string          `json:"message"`
	Count   int             `json:"count,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil || len(b) > maxData {
		return json.RawMessage(`{"truncated":true}`)
	}
	return b
}

var errClosed = errors.New("the receipts are closed")

// Append adds entries, all or none, and returns when they are on the disk.
func (l *Log) Append(all ...Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.append(all...)
}

// append is Append. l.mu is held.
func (l *Log) append(all ...Entry) error {
	if l.root == nil {
		return errClosed
	}
	if err := l.mend(); err != nil {
		return err
	}
	if err := l.rotate(); err != nil {
		return err
	}
	var buf bytes.Buffer
	seq, head := l.seq, l.head
	for _, e := range append(l.first[:len(l.first):len(l.first)], all...) {
		seq++
		e.Seq = seq
		if e.Time.IsZero() {
			e.Time = l.Now()
		}
		e.Time = e.Time.UTC()
		e.Message = api.Shorten(e.Message, maxMessage)
		b, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode a receipt: %w", err)
		}
		if len(b) > maxEntry {
			return fmt.Errorf("encode a receipt: it has %d bytes", len(b))
		}
		head = next(head, b)
		fmt.Fprintf(&buf, "%s %s\n", head, b)
	}
	l.torn = true
	_, err := l.f.Write(buf.Bytes())
	failpoint.Hit("receipt:written")
	if err == nil {
		err = unix.Fdatasync(int(l.f.Fd()))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write receipts: %w", err), l.mend())
	}
	l.torn, l.first, l.ended = false, nil, false
	failpoint.Hit("receipt:synced")
	l.seq, l.head, l.size = seq, head, l.size+int64(buf.Len())
	return nil
}

// mend cuts what an append that failed has left. l.mu is held.
func (l *Log) mend() error {
	if !l.torn {
		return nil
	}
	if err := l.f.Truncate(l.size); err != nil {
		return fmt.Errorf("cut an incomplete receipt: %w", err)
	}
	l.torn = false
	return nil
}

// next is the hash of an entry.
func next(head string, b []byte) string {
	return cas.Sum(append([]byte(head+"\n"), b...)).String()
}

// Head returns the number and the hash of the last entry.
func (l *Log) Head() (seq uint64, hash string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq, l.head
}
