package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"polis/cmd/internal/ending"
	"polis/daemon/api"
	"polis/daemon/http/client"
)

// killAfter is how many ending signals a command may ignore before polisctl
// leaves it.
const killAfter = 3

// catchSignals collects the signals a session passes on. It must be called
// before the command is started: a signal that comes while it starts is the
// command's too.
func catchSignals() (sigs <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 16)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGWINCH, syscall.SIGCONT)
	return c, func() { signal.Stop(c) }
}

// errDetached ends a session that continues without this client.
var errDetached = errors.New("detached")

// session is a command of an agent attached to this process's streams.
type session struct {
	a      *app
	remote *client.Session
	tty    bool // the command has a terminal
	stdin  bool // input is sent
	attach bool // the command is the agent's own: it must outlive this client
	sigs   <-chan os.Signal
	// frozen reports why the agent's processes get no signal; "" if they do, or it is not known.
	frozen func(context.Context) string
	raw    *rawTerminal
	modes  *termModes // nil if the program's terminal is not shown on one
	cancel context.CancelCauseFunc
}

// run moves bytes, sizes and signals until the command ends, and returns its
// exit status. The terminal is restored and the connection closed when run
// returns or panics.
func (s *session) run() (code int, err error) {
	defer func() { _ = s.remote.Close() }() // it may be closed already
	// SIGTERM and the like are not the end of the session but for its command.
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	s.cancel = cancel
	finished := make(chan struct{})
	defer close(finished)
	defer context.AfterFunc(ctx, func() { s.leaveSoon(ctx, finished) })()

	stdout := io.Writer(s.a.stdout)
	if s.tty && isTerminal(s.a.stdout) {
		s.modes = &termModes{w: s.a.stdout}
		stdout = s.modes
	}
	if s.tty && s.stdin && isTerminal(s.a.stdin) {
		if s.raw, err = makeRaw(s.a.stdin); err != nil {
			return 0, err
		}
		s.raw.modes = s.modes
		defer s.raw.restore()
	}
	defer s.modes.reset(false)
	in, err := newInput(s.a.stdin)
	if err != nil {
		return 0, err
	}
	defer in.close()

	var wg sync.WaitGroup
	done := make(chan struct{})
	defer func() {
		close(done)
		in.stop()
		_ = s.remote.Close() // wakes a blocked send; there is nothing left to lose
		wg.Wait()
	}()
	wg.Go(func() {
		defer s.raw.onPanic()
		s.signals(done)
	})
	if s.stdin {
		wg.Go(func() {
			defer s.raw.onPanic()
			s.pump(in)
		})
	}
	if s.attach {
		s.redraw()
	}
	code, err = s.remote.Run(ctx, stdout, s.a.stderr)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return s.left(cause)
	}
	return code, err
}

// leaveSoon bounds what is left to do after the session was cancelled.
func (s *session) leaveSoon(ctx context.Context, finished <-chan struct{}) {
	sig := syscall.SIGTERM
	var i interrupt
	if errors.As(context.Cause(ctx), &i) {
		sig = i.sig
	}
	ending.Within(finished, sig, s.raw.abandon)
}

// left ends a session whose command continues or did not end in time.
func (s *session) left(cause error) (int, error) {
	s.modes.reset(true)
	s.raw.restore()
	var l leaving
	switch {
	case s.a.quiet:
	case s.attach:
		fmt.Fprintln(s.a.stderr, "detached; the agent continues")
	case errors.As(cause, &l):
		fmt.Fprintln(s.a.stderr, clean(l.why))
	}
	if errors.Is(cause, errDetached) {
		return 0, nil
	}
	var i interrupt
	if errors.As(cause, &i) {
		return exitSignal + int(i.sig), nil
	}
	return 0, api.Errorf(api.CodeInternal, "session: %w", cause)
}

// pump sends standard input until its end.
func (s *session) pump(in io.Reader) {
	var keys detacher
	buf := make([]byte, 32<<10)
	out := s.remote.Stdin()
	last := byte('\n')
	for {
		n, err := in.Read(buf)
		data, detach := buf[:n], false
		if s.attach && s.raw != nil {
			data, detach = keys.filter(data)
		}
		if len(data) > 0 {
			if _, werr := out.Write(data); werr != nil {
				return // the connection is gone; Run says why
			}
			last = data[len(data)-1]
		}
		if detach {
			s.cancel(errDetached)
			return
		}
		if err != nil {
			if !errors.Is(err, errStopped) {
				s.endInput(last)
			}
			return
		}
	}
}

// endInput ends the input of the command; last is the last byte sent.
func (s *session) endInput(last byte) {
	var err error
	switch {
	case s.attach:
		// The end of one client's input is not the end of the agent's own.
	case s.tty:
		// A terminal has no EOF; Ctrl-D signals it to programs that read lines, once more after
		// an incomplete line.
		eof := []byte{4, 4}
		if last == '\n' {
			eof = eof[1:]
		}
		_, err = s.remote.Stdin().Write(eof)
	default:
		err = s.remote.CloseStdin()
	}
	_ = err // the connection is gone; Run says why
}

func (s *session) resize() {
	if s.tty && isTerminal(s.a.stdout) {
		rows, cols := terminalSize(s.a.stdout)
		_ = s.remote.Resize(rows, cols) // the connection is gone; Run says why
	}
}

// redraw makes the agent's program draw its screen for the new client: a size
// that changes is the one thing all of them answer.
func (s *session) redraw() {
	if s.tty && isTerminal(s.a.stdout) {
		rows, cols := terminalSize(s.a.stdout)
		_ = s.remote.Resize(rows, cols-min(cols-1, 1)) // the connection is gone; Run says why
	}
	s.resize()
}

// The keys that detach: Ctrl-P Ctrl-Q, as in docker(1).
const (
	detachFirst  = 0x10
	detachSecond = 0x11
)

// detacher finds the detach keys in what is typed. The first key is held back
// until the next one is there.
type detacher struct {
	held bool
	out  []byte
}

// filter returns what is to be sent of p, and whether to detach. The result is
// valid until the next call.
func (d *detacher) filter(p []byte) ([]byte, bool) {
	d.out = d.out[:0]
	for _, b := range p {
		if d.held {
			if b == detachSecond {
				d.held = false
				return d.out, true
			}
			d.out = append(d.out, detachFirst)
			d.held = false
		}
		if b == detachFirst {
			d.held = true
			continue
		}
		d.out = append(d.out, b)
	}
	return d.out, false
}
