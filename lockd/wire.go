package lockd

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"polis/lockd/table"
)

// The protocol: frames of four bytes length (big endian) and one JSON object. The client sends
// hello, reclaims what it has, then sends requests; requests carry an id, every acquire gets
// exactly one grant or error with that id, in any order. The server may send unrequested
// messages: waiter, lost, unmerge, changed.
//
// Both sides send in the hello which version they speak, and neither uses what the other does not
// know. Version 2 has lock, unlock, own and changed, version 3 delegations: grant may carry them
// (lent), the server recalls them with recall, the client reports what it granted itself with
// report and returns them with return, with or without a recall.
const (
	baseVersion     = 1
	lockVersion     = 2 // the first with explicit locks of agents
	lendVersion     = 3 // the first with delegations
	protocolVersion = 3
	maxFrame        = 1 << 20
)

// Kinds of messages.
const (
	msgHello     = "hello"
	msgReclaim   = "reclaim"
	msgReclaimed = "reclaimed"
	msgAcquire   = "acquire"
	msgCancel    = "cancel"
	msgRelease   = "release"
	msgPing      = "ping"
	msgQuery     = "query"
	msgBye       = "bye"
	msgLock      = "lock"
	msgUnlock    = "unlock"
	msgOwn       = "own"
	msgReport    = "report"
	msgReturn    = "return"

	msgOK      = "ok"
	msgGrant   = "grant"
	msgError   = "error"
	msgPong    = "pong"
	msgLeases  = "leases"
	msgWaiter  = "waiter"
	msgLost    = "lost"
	msgUnmerge = "unmerge"
	msgChanged = "changed"
	msgRecall  = "recall"
)

// message is every frame, in both directions.
type message struct {
	Type string `json:"t"`
	ID   uint64 `json:"id,omitempty"`

	Version   int    `json:"v,omitempty"`
	Speaks    int    `json:"speaks,omitempty"` // the version of a client; Version is the oldest it knows
	Agent     string `json:"agent,omitempty"`
	Workspace string `json:"workspace,omitempty"`
	Session   string `json:"session,omitempty"`
	Secret    string `json:"secret,omitempty"`
	Resumed   bool   `json:"resumed,omitempty"`
	Stale     int64  `json:"stale,omitempty"` // the server's stale timeout, ms
	Limit     int    `json:"limit,omitempty"` // the leases one agent may have

	Keys   []wireKey `json:"keys,omitempty"`
	Lent   []wireKey `json:"lent,omitempty"` // delegated directories, with Token and Last
	Op     string    `json:"op,omitempty"`
	Pid    uint32    `json:"pid,omitempty"`
	Tokens []uint64  `json:"tokens,omitempty"`
	Leases []Lease   `json:"leases,omitempty"`
	Total  int       `json:"total,omitempty"` // of which Leases are the first

	// Of lock: an explicit lease, in the agent's name.
	Reason string `json:"reason,omitempty"`
	For    int64  `json:"for,omitempty"` // ms
	Soft   bool   `json:"soft,omitempty"`

	Code     string        `json:"code,omitempty"`
	Text     string        `json:"text,omitempty"`
	Conflict *wireConflict `json:"conflict,omitempty"`
}

// wireKey is a key or a claim. A path that is not UTF-8 is sent as Bytes: JSON would map two such
// names to one.
type wireKey struct {
	Path  string `json:"p,omitempty"`
	Bytes []byte `json:"b,omitempty"`
	Tree  bool   `json:"tree,omitempty"`
	Read  bool   `json:"read,omitempty"`
	Merge bool   `json:"merge,omitempty"`
	Keep  int64  `json:"keep,omitempty"` // ms
	Wait  int64  `json:"wait,omitempty"` // ms
	Token uint64 `json:"token,omitempty"`
	Since int64  `json:"since,omitempty"` // unix ms
	Last  uint64 `json:"last,omitempty"`
	// Of a report.
	Op  string `json:"o,omitempty"`
	Pid uint32 `json:"pid,omitempty"`
}

func wirePath(p string) wireKey {
	if utf8.ValidString(p) {
		return wireKey{Path: p}
	}
	return wireKey{Bytes: []byte(p)}
}

func (k *wireKey) path() string {
	if len(k.Bytes) > 0 {
		return string(k.Bytes)
	}
	return k.Path
}

func (k *wireKey) mode() Mode {
	if k.Read {
		return Read
	}
	return Write
}

// maxWait keeps a duration from the wire far from overflow; no wait is longer.
const maxWait = 24 * time.Hour

func (k *wireKey) key() (table.Key, error) {
	if k.Wait < 0 || k.Wait > maxWait.Milliseconds() {
		return table.Key{}, fmt.Errorf("%w: wait of %d ms", ErrInvalid, k.Wait)
	}
	return table.Key{
		Path: k.path(), Tree: k.Tree, Mode: k.mode(), Merge: k.Merge,
		Wait: time.Duration(k.Wait) * time.Millisecond,
		Keep: time.Duration(min(max(k.Keep, 0), maxWait.Milliseconds())) * time.Millisecond,
	}, nil
}

// millis rounds up, so that a short wait does not become none.
func millis(d time.Duration) int64 {
	return min(max(int64((d+time.Millisecond-1)/time.Millisecond), 0), maxWait.Milliseconds())
}

// Error codes on the wire.
const (
	codeConflict    = "conflict"
	codeUnavailable = "unavailable"
	codeLimit       = "limit"
	codeInvalid     = "invalid"
	codeSession     = "session"
	codeExists      = "session-exists"
	codeCanceled    = "canceled"
	codeNotHeld     = "not-held"
	codeInternal    = "internal"
)

// errorMessage is the error reply to request id.
func errorMessage(id uint64, err error) *message {
	m := &message{Type: msgError, ID: id, Code: codeInternal, Text: err.Error()}
	var ce *ConflictError
	switch {
	case errors.As(err, &ce):
		m.Code, m.Text = codeConflict, ""
		m.Conflict = conflictOnWire(ce)
	case errors.Is(err, table.ErrGrace):
		m.Code = codeUnavailable
	case errors.Is(err, table.ErrLimit):
		m.Code = codeLimit
	case errors.Is(err, table.ErrInvalid):
		m.Code = codeInvalid
	case errors.Is(err, table.ErrNoSession):
		m.Code = codeSession
	case errors.Is(err, table.ErrSessionExists):
		m.Code = codeExists
	case errors.Is(err, table.ErrCanceled):
		m.Code = codeCanceled
	case errors.Is(err, table.ErrNotHeld):
		m.Code = codeNotHeld
	}
	return m
}

// err is the error that errorMessage was made from, as far as callers can distinguish.
func (m *message) err(workspace string) error {
	switch m.Code {
	case codeConflict:
		if c := m.Conflict; c != nil {
			return c.err(workspace)
		}
	case codeUnavailable:
		return fmt.Errorf("%w: %s", ErrUnavailable, m.Text)
	case codeLimit:
		return fmt.Errorf("%w: %s", ErrLimit, m.Text)
	case codeInvalid:
		return fmt.Errorf("%w: %s", ErrInvalid, m.Text)
	case codeSession:
		return fmt.Errorf("%w: %s", table.ErrNoSession, m.Text)
	case codeExists:
		return fmt.Errorf("%w: %s", table.ErrSessionExists, m.Text)
	case codeCanceled:
		return table.ErrCanceled
	case codeNotHeld:
		return fmt.Errorf("%w: %s", ErrNotHeld, m.Text)
	}
	return fmt.Errorf("lock server: %s %s", m.Code, m.Text)
}

// appendFrame encodes m at the end of buf.
func appendFrame(buf []byte, m *message) ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return buf, fmt.Errorf("encode %s: %w", m.Type, err)
	}
	if len(b) > maxFrame {
		return buf, fmt.Errorf("%w: %s of %d bytes", ErrInvalid, m.Type, len(b))
	}
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(b)))
	return append(buf, b...), nil
}

// readFrame reads one message; buf is scratch space for reuse. An oversized or malformed frame is
// an error: the stream cannot be resynchronised.
func readFrame(r *bufio.Reader, buf []byte, m *message) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return buf, err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	if n > maxFrame {
		return buf, fmt.Errorf("frame of %d bytes, at most %d allowed", n, maxFrame)
	}
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	if _, err := io.ReadFull(r, buf); err != nil {
		return buf, fmt.Errorf("read frame: %w", err)
	}
	*m = message{}
	if err := json.Unmarshal(buf, m); err != nil {
		return buf, fmt.Errorf("decode frame: %w", err)
	}
	return buf, nil
}

// Frames with many paths are cut so that even the worst escaping (six bytes
// for one) keeps each below maxFrame.
const (
	chunkItems = 1000
	chunkBytes = 100 << 10
)

// chunks calls fn with consecutive parts of keys that fit into a frame each.
func chunks(keys []wireKey, fn func([]wireKey)) {
	for len(keys) > 0 {
		n, size := 0, 0
		for n < len(keys) && n < chunkItems && (n == 0 || size < chunkBytes) {
			size += len(keys[n].Path) + len(keys[n].Bytes) + len(keys[n].Op)
			n++
		}
		fn(keys[:n])
		keys = keys[n:]
	}
}
