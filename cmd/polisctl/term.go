package main

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"polis/daemon/api"
)

// rawTerminal is a terminal that was put into raw mode and must be given back.
// A nil one is no terminal; its methods do nothing.
type rawTerminal struct {
	fd    int
	mu    sync.Mutex
	saved *term.State // nil once restored
	first *term.State // what saved was
	modes *termModes  // what the program on it changed; may be nil
}

// makeRaw puts the terminal at f into raw mode.
func makeRaw(f *os.File) (*rawTerminal, error) {
	t := &rawTerminal{fd: int(f.Fd())}
	saved, err := term.MakeRaw(t.fd)
	if err != nil {
		return nil, api.Errorf(api.CodeInternal, "terminal: raw mode: %w", err)
	}
	t.saved, t.first = saved, saved
	return t, nil
}

// makeKeys has the terminal at f give each key at once, without showing it. Unlike in raw mode the keys of signals send them, and
// output is processed.
func makeKeys(f *os.File) (*rawTerminal, error) {
	t := &rawTerminal{fd: int(f.Fd())}
	saved, err := term.GetState(t.fd)
	if err == nil {
		t.saved, t.first = saved, saved
		var m *unix.Termios
		if m, err = unix.IoctlGetTermios(t.fd, unix.TCGETS); err == nil {
			m.Lflag &^= unix.ICANON | unix.ECHO
			m.Cc[unix.VMIN], m.Cc[unix.VTIME] = 1, 0
			err = unix.IoctlSetTermios(t.fd, unix.TCSETS, m)
		}
	}
	if err != nil {
		return nil, api.Errorf(api.CodeInternal, "terminal: read keys: %w", err)
	}
	return t, nil
}

// restore gives the terminal back as it was. It may be called more than once.
func (t *rawTerminal) restore() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved != nil {
		t.modes.reset(false)
		_ = term.Restore(t.fd, t.saved) // it fails only if the terminal is gone
		t.saved = nil
	}
}

// abandon is restore for a process that ends at once, whatever its other goroutines do.
func (t *rawTerminal) abandon() {
	if t != nil {
		_ = term.Restore(t.fd, t.first) // it fails only if the terminal is gone
	}
}

// again returns to raw mode after the shell took the terminal over while
// polisctl was stopped.
func (t *rawTerminal) again() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved != nil {
		_, _ = term.MakeRaw(t.fd) // it fails only if the terminal is gone
	}
}

// onPanic is deferred by goroutines that run while the terminal is raw: a
// panic there ends the process without the deferred calls of others.
func (t *rawTerminal) onPanic() {
	if p := recover(); p != nil {
		t.restore()
		panic(p)
	}
}

// terminalSize returns the size in character cells, or 24 by 80.
func terminalSize(f *os.File) (rows, cols uint16) {
	w, h, err := term.GetSize(int(f.Fd()))
	if err != nil || w <= 0 || h <= 0 || w > 0xffff || h > 0xffff {
		return 24, 80
	}
	return uint16(h), uint16(w)
}

// input reads a file so that a blocked read can be ended: os.File cannot do
// that for terminals and pipes inherited in blocking mode.
type input struct {
	fd   int
	wake int // eventfd, readable once closed
}

func newInput(f *os.File) (*input, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, api.Errorf(api.CodeInternal, "eventfd: %w", err)
	}
	return &input{fd: int(f.Fd()), wake: wake}, nil
}

// errStopped is the end of an input that was stopped.
var errStopped = errors.New("input stopped")

// Read returns io.EOF at the end of the file, errStopped after stop.
func (in *input) Read(p []byte) (int, error) {
	for {
		fds := []unix.PollFd{{Fd: int32(in.fd), Events: unix.POLLIN}, {Fd: int32(in.wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return 0, err
		}
		if fds[1].Revents != 0 {
			return 0, errStopped
		}
		n, err := unix.Read(in.fd, p)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		case errors.Is(err, unix.EIO): // the terminal was hung up
			return 0, io.EOF
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// stop ends a blocked and every later Read.
func (in *input) stop() {
	_, _ = unix.Write(in.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // fails only if already signalled 2^64-1 times
}

// close frees the eventfd; no Read may be running.
func (in *input) close() { _ = unix.Close(in.wake) }
