package shim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"polis/cgroup/sandbox"
	"polis/daemon/shim/novelty"
)

// session is the agent's main command: its process, its input, and its output to the log and to
// attached clients. It ends when the process has exited and its output is copied.
type session struct {
	proc  *sandbox.Proc
	input io.WriteCloser
	done  chan struct{}
	code  int
	ended time.Time
	tty   bool
	// sending holds one token while a line waits for the command to read it.
	sending chan struct{}

	mu   sync.Mutex
	subs map[*subscriber]struct{}
	term *terminal // nil without a terminal; guarded by mu
	// steps is what it does as a task; nil if it is none. mu guards what it leads to.
	steps *stepper
	// printed is what it prints and what of that is new, called which calls it made. mu guards them.
	printed novelty.Meter
	called  calls
}

// subscriber receives the output of a session. A slow subscriber is disconnected, so that it does
// not block the agent.
type subscriber struct {
	ch   chan []byte
	slow bool
}

const subscriberBacklog = 256

// startFunc starts a process in the sandbox.
type startFunc func(sandbox.Process) (*sandbox.Proc, error)

// startSession runs the command in the sandbox. log receives all output, as st renders it. With
// noInput, a command without a terminal reads end-of-file at once. begins is called before the command
// runs, whether it can be started or not, and exited before the session ends.
func startSession(ctx context.Context, start startFunc, p sandbox.Process, noInput bool, st *stepper, log io.Writer, lg *slog.Logger, begins, exited func(*session)) (*session, error) {
	s := &session{done: make(chan struct{}), sending: make(chan struct{}, 1), tty: p.TTY, subs: map[*subscriber]struct{}{}, steps: st}
	var out, errOut *os.File
	var closers []io.Closer
	if !p.TTY {
		inR, inW, err := os.Pipe()
		if err != nil {
			return nil, fmt.Errorf("make pipe: %w", err)
		}
		outR, outW, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make pipe: %w", err), inR.Close(), inW.Close())
		}
		p.Stdin, p.Stdout, p.Stderr = inR, outW, outW
		s.input, out = inW, outR
		closers = []io.Closer{inR, outW}
		if st.reads() {
			// What is printed beside the stream must not get into the midst of its lines.
			errR, errW, err := os.Pipe()
			if err != nil {
				return nil, errors.Join(fmt.Errorf("make pipe: %w", err), inR.Close(), inW.Close(), outR.Close(), outW.Close())
			}
			p.Stderr, errOut = errW, errR
			closers = append(closers, errW)
		}
		if noInput {
			closers = append(closers, inW)
		}
	}
	if p.TTY {
		s.term = newTerminal(int(p.Rows), int(p.Cols), log)
	}
	begins(s)
	proc, err := start(p)
	for _, c := range closers {
		_ = c.Close() //nolint:errcheck // the child has its own copies
	}
	if err != nil {
		if out != nil {
			err = errors.Join(err, out.Close(), s.input.Close())
		}
		if errOut != nil {
			err = errors.Join(err, errOut.Close())
		}
		return nil, err
	}
	s.proc = proc
	if p.TTY {
		out, s.input = proc.Console(), nopCloser{proc.Console()}
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		var other sync.WaitGroup
		if errOut != nil {
			other.Go(func() { copyOutput(errOut, func(b []byte) error { return s.errorOutput(b, log) }, lg) })
		}
		copyOutput(out, func(b []byte) error { return s.output(b, log) }, lg)
		other.Wait()
	}()
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		s.settle(copied, lg)
	}()
	go func() {
		defer close(s.done)
		code, err := proc.Wait()
		if err != nil {
			lg.Warn("end of the main command not seen", "err", err)
		}
		s.code, s.ended = code, time.Now()
		// Pending output is read; a background child that keeps the pipe open must not keep the
		// session open.
		select {
		case <-copied:
		case <-time.After(500 * time.Millisecond):
			for _, f := range []*os.File{out, errOut} {
				if err := f.Close(); f != nil && err != nil && !errors.Is(err, os.ErrClosed) {
					lg.Warn("output not closed", "err", err)
				}
			}
			<-copied
		}
		<-settled
		s.endSteps(log, lg)
		_ = s.input.Close() //nolint:errcheck // the reader is gone
		_ = out.Close()     //nolint:errcheck // may be closed above
		_ = errOut.Close()  //nolint:errcheck // as well, or nil
		s.mu.Lock()
		for sub := range s.subs {
			close(sub.ch)
		}
		s.subs = nil
		s.mu.Unlock()
		exited(s)
	}()
	return s, nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// copyOutput has take get what comes from out, until its end.
func copyOutput(out *os.File, take func([]byte) error, lg *slog.Logger) {
	buf := make([]byte, 32<<10)
	for {
		n, err := out.Read(buf)
		if n > 0 {
			if werr := take(buf[:n]); werr != nil {
				lg.Error("output log not written", "err", werr)
			}
		}
		if err != nil {
			// A pty returns EIO when its last writer is gone.
			if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.EIO) && !errors.Is(err, os.ErrClosed) {
				lg.Warn("output not read", "err", err)
			}
			return
		}
	}
}

// output writes the command's output to the log and to the attached clients.
func (s *session) output(p []byte, log io.Writer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.steps.reads() {
		done := s.steps.stream.Write(p)
		s.besides(done)
		return s.show(p, done, log)
	}
	s.printed.Write(p, time.Now())
	s.fan(append([]byte(nil), p...))
	if s.steps != nil && s.term == nil {
		s.steps.stream.Watch(p)
	}
	if s.term != nil {
		return s.term.write(p)
	}
	_, err := log.Write(p)
	return err
}

// fan sends p to the subscribers. s.mu is held.
func (s *session) fan(p []byte) {
	for sub := range s.subs {
		select {
		case sub.ch <- p:
		default:
			sub.slow = true
			close(sub.ch)
			delete(s.subs, sub)
		}
	}
}

// subscribe returns the output from now on, preceded by the sequence that draws the present
// screen. ok is false if the session has ended.
func (s *session) subscribe(rows, cols uint16) (sub *subscriber, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subs == nil {
		return nil, false
	}
	sub = &subscriber{ch: make(chan []byte, subscriberBacklog)}
	if s.term != nil && rows > 0 && cols > 0 {
		s.term.screen.Resize(int(rows), int(cols))
		sub.ch <- s.term.screen.Paint()
	}
	s.subs[sub] = struct{}{}
	return sub, true
}

// resize sets the size of the command's terminal.
func (s *session) resize(rows, cols uint16) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.term != nil {
		s.term.screen.Resize(int(rows), int(cols))
	}
	return s.proc.Resize(rows, cols)
}

func (s *session) unsubscribe(sub *subscriber) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subs, sub)
}

// stop ends the command with SIGTERM, then SIGKILL.
func (s *session) stop(ctx context.Context, grace time.Duration, signalled func(syscall.Signal)) error {
	for _, step := range []struct {
		sig  syscall.Signal
		wait time.Duration
	}{{syscall.SIGTERM, grace}, {syscall.SIGKILL, 5 * time.Second}} {
		if err := s.proc.Signal(step.sig); err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal the main command: %w", err)
		}
		signalled(step.sig)
		t := time.NewTimer(step.wait)
		select {
		case <-s.done:
			t.Stop()
			return nil
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
	return errors.New("the main command does not die")
}
