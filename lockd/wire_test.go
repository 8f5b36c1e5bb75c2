package lockd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/lockd/table"
)

func TestErrorsSurviveTheWire(t *testing.T) {
	since := time.Now().Round(0)
	ce := &ConflictError{
		Workspace: ws, Path: "d/\xff", Lease: "d", Holder: "ann", Since: since, Reason: "why", Token: 7,
		Mode: Read, Tree: true, Op: "open", Pid: 4,
		Until: Until{At: time.UnixMilli(since.UnixMilli()), Explicit: true, Merge: true, After: 30 * time.Second},
	}
	for _, tc := range []struct {
		in, is error
	}{
		{ce, ce},
		{fmt.Errorf("x: %w", table.ErrGrace), ErrUnavailable},
		{fmt.Errorf("x: %w", table.ErrLimit), ErrLimit},
		{fmt.Errorf("x: %w", table.ErrInvalid), ErrInvalid},
		{fmt.Errorf("x: %w", table.ErrNoSession), table.ErrNoSession},
		{fmt.Errorf("x: %w", table.ErrSessionExists), table.ErrSessionExists},
		{table.ErrCanceled, table.ErrCanceled},
	} {
		buf, err := appendFrame(nil, errorMessage(3, tc.in))
		require.NoError(t, err)
		var m message
		_, err = readFrame(bufio.NewReader(bytes.NewReader(buf)), nil, &m)
		require.NoError(t, err)
		require.EqualValues(t, 3, m.ID)
		got := m.err(ws)
		var gotCE *ConflictError
		if errors.As(got, &gotCE) {
			require.True(t, gotCE.Since.Equal(since))
			gotCE.Since = since
			require.Equal(t, tc.is, got)
			continue
		}
		require.ErrorIs(t, got, tc.is)
	}
	require.Error(t, errorMessage(1, errors.New("odd")).err(ws))
	require.Error(t, (&message{Code: codeConflict}).err(ws), "a conflict without its data")
}

func TestFrameLimits(t *testing.T) {
	_, err := appendFrame(nil, &message{Type: msgLost, Text: strings.Repeat("x", maxFrame)})
	require.ErrorIs(t, err, ErrInvalid)
	var m message
	_, err = readFrame(bufio.NewReader(strings.NewReader("\x00\x10\x00\x01")), nil, &m)
	require.ErrorContains(t, err, "at most")
	_, err = readFrame(bufio.NewReader(strings.NewReader("\x00\x00\x00\x05{")), nil, &m)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = readFrame(bufio.NewReader(strings.NewReader("")), nil, &m)
	require.ErrorIs(t, err, io.EOF)
}

func TestChunksFitIntoFrames(t *testing.T) {
	for name, path := range map[string]string{
		"short":    "a",
		"escaped":  strings.Repeat("\x01", table.MaxPath),
		"no text":  strings.Repeat("\xff", table.MaxPath),
		"ordinary": strings.Repeat("é", 100),
	} {
		keys := make([]wireKey, 2500)
		for i := range keys {
			keys[i] = wirePath(path)
			keys[i].Token, keys[i].Since, keys[i].Tree = 1<<52, 1<<42, true
		}
		n := 0
		chunks(keys, func(part []wireKey) {
			n += len(part)
			_, err := appendFrame(nil, &message{Type: msgReclaim, ID: 1 << 60, Keys: part})
			require.NoError(t, err, name)
		})
		require.Equal(t, len(keys), n)
	}
	// The largest request a client sends.
	r := Request{}
	for i := range maxRequestBytes / table.MaxPath {
		r.Paths = append(r.Paths, strings.Repeat("\x01", table.MaxPath-2)+fmt.Sprintf("%02d", i))
	}
	ws, err := r.wants()
	require.NoError(t, err)
	require.NoError(t, r.check(ws))
	m := &message{Type: msgAcquire, ID: 1 << 60}
	for _, w := range ws {
		m.Keys = append(m.Keys, wirePath(w.path))
	}
	_, err = appendFrame(nil, m)
	require.NoError(t, err)
}

func TestMillis(t *testing.T) {
	require.EqualValues(t, 1, millis(time.Nanosecond))
	require.EqualValues(t, 0, millis(-time.Second))
	require.EqualValues(t, 3000, millis(3*time.Second))
	require.Equal(t, maxWait.Milliseconds(), millis(1<<62))
}

// FuzzFrame: no bytes make the decoder panic or take more than a frame, and
// what it accepts means the same after another round.
func FuzzFrame(f *testing.F) {
	for _, m := range []*message{
		{Type: msgAcquire, ID: 1, Keys: []wireKey{{Path: "a"}, {Bytes: []byte{0xff}, Tree: true, Wait: 3000}}},
		errorMessage(2, &ConflictError{Path: "p", Lease: "l", Holder: "h"}),
	} {
		buf, err := appendFrame(nil, m)
		require.NoError(f, err)
		f.Add(buf)
	}
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bufio.NewReader(bytes.NewReader(b))
		var buf []byte
		for {
			var m message
			var err error
			if buf, err = readFrame(r, buf, &m); err != nil {
				return
			}
			_ = m.err(ws)
			again, err := appendFrame(nil, &m)
			if err != nil {
				return // escaping may make it larger than a frame
			}
			var n message
			_, err = readFrame(bufio.NewReader(bytes.NewReader(again)), nil, &n)
			require.NoError(t, err)
			require.Equal(t, len(m.Keys), len(n.Keys))
		}
	})
}

// FuzzServer: whatever a connected shim sends, others are served, and nothing
// of it is left when it is gone.
func FuzzServer(f *testing.F) {
	frame := func(ms ...*message) []byte {
		var buf []byte
		for _, m := range ms {
			var err error
			buf, err = appendFrame(buf, m)
			require.NoError(f, err)
		}
		return buf
	}
	key := []wireKey{{Path: "f", Wait: 50, Token: 3}}
	f.Add(frame(&message{Type: msgAcquire, ID: 1, Keys: key}, &message{Type: msgRelease, Keys: key}, &message{Type: msgCancel, ID: 1}))
	f.Add(frame(&message{Type: msgReclaim, ID: 1, Keys: key}, &message{Type: msgReclaimed, ID: 2}, &message{Type: msgPing}))
	f.Add(frame(&message{Type: msgBye, ID: 1}, &message{Type: msgAcquire, ID: 2, Keys: key}, &message{Type: msgUnmerge}))
	f.Add(frame(&message{Type: msgHello}, &message{Type: msgGrant}))
	dir, err := os.MkdirTemp("", "lockd")
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, os.RemoveAll(dir)) })
	s := serve(f, filepath.Join(dir, "s"))
	good := join(f, s.Path, "good")
	acquire(f, good, "mine")
	f.Fuzz(func(t *testing.T, b []byte) {
		nc, err := net.Dial("unix", s.Path)
		require.NoError(t, err)
		r := &raw{t, nc, bufio.NewReader(nc)}
		require.NoError(t, nc.SetDeadline(time.Now().Add(30*time.Second)))
		r.hello("evil")
		_, _ = nc.Write(b) // it may hang up in the middle
		require.NoError(t, nc.(*net.UnixConn).CloseWrite())
		_, _ = io.Copy(io.Discard, nc)
		require.NoError(t, nc.Close())
		s.DropAgent("evil")
		require.Equal(t, []string{"mine"}, heldPaths(s, ""))
		acquire(t, good, "mine").Done()
	})
}
