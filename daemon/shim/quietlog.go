package shim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// Limits of what a shim logs. An agent's actions make its shim log, so both rate and amount are
// bounded.
const (
	logBurst   = 20              // records of one message at once, then one every
	logEvery   = time.Second     //
	maxShimLog = 4 << 20         // bytes of shim.log, and of shim.log.1 before it
	logLook    = 5 * time.Second // interval of checks of its size
	maxKinds   = 512             // messages that are counted separately
)

// NewLog returns the log of a shim: lines on standard error, at a bounded rate for each message.
// The first line after a pause reports how many were dropped. If standard error is the file
// shim.log in dir, its size is bounded too.
func NewLog(dir string) *slog.Logger {
	file := &shimLog{path: filepath.Join(dir, "shim.log"), fd: int(os.Stderr.Fd())}
	return slog.New(&quietHandler{next: slog.NewTextHandler(file, nil), rates: &rates{now: time.Now, kinds: map[string]*kind{}}})
}

// quietHandler is a slog.Handler that passes on a bounded number of records.
type quietHandler struct {
	next  slog.Handler
	rates *rates // shared by all handlers that are derived from one another
}

type rates struct {
	now   func() time.Time
	mu    sync.Mutex
	kinds map[string]*kind
}

type kind struct {
	bucket *rate.Limiter
	left   int // dropped since the last one that was passed on
}

// pass reports whether a record of this message is passed on, and how many were dropped before it.
func (r *rates) pass(msg string) (left int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.kinds[msg]
	if k == nil {
		if len(r.kinds) >= maxKinds { // messages are constants: more is a bug
			clear(r.kinds)
		}
		k = &kind{bucket: rate.NewLimiter(rate.Every(logEvery), logBurst)}
		r.kinds[msg] = k
	}
	if !k.bucket.AllowN(r.now(), 1) {
		k.left++
		return 0, false
	}
	left, k.left = k.left, 0
	return left, true
}

// Enabled implements slog.Handler.
func (h *quietHandler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

// Handle implements slog.Handler.
func (h *quietHandler) Handle(ctx context.Context, r slog.Record) error {
	left, ok := h.rates.pass(r.Message)
	if !ok {
		return nil
	}
	if left > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("left_out", left))
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *quietHandler) WithAttrs(as []slog.Attr) slog.Handler {
	return &quietHandler{next: h.next.WithAttrs(as), rates: h.rates}
}

// WithGroup implements slog.Handler.
func (h *quietHandler) WithGroup(name string) slog.Handler {
	return &quietHandler{next: h.next.WithGroup(name), rates: h.rates}
}

// shimLog writes to a descriptor and, if that is the file at path, rotates it when it is too
// large. slog calls Write one at a time.
type shimLog struct {
	path   string
	fd     int
	looked time.Time
}

func (l *shimLog) Write(p []byte) (int, error) {
	if now := time.Now(); now.Sub(l.looked) >= logLook {
		l.looked = now
		if err := l.rotate(); err != nil {
			p = fmt.Appendf(p, "shim.log cannot be rotated: %v\n", err)
		}
	}
	n, err := unix.Write(l.fd, p)
	return max(n, 0), err
}

// rotate replaces the file behind the descriptor, so that other output on it, such as the trace of
// a panic, goes to the new file.
func (l *shimLog) rotate() error {
	var is, named unix.Stat_t
	if err := unix.Fstat(l.fd, &is); err != nil {
		return err
	}
	if is.Mode&unix.S_IFMT != unix.S_IFREG || is.Size < maxShimLog {
		return nil
	}
	err := unix.Lstat(l.path, &named)
	if errors.Is(err, unix.ENOENT) || err == nil && (named.Dev != is.Dev || named.Ino != is.Ino) {
		return nil // standard error is redirected to another file
	}
	if err == nil {
		err = os.Rename(l.path, l.path+".1")
	}
	if err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(unix.Dup3(int(f.Fd()), l.fd, 0), f.Close())
}
