package main

import (
	"fmt"
	"io"
	"sync"

	"github.com/charmbracelet/x/ansi"
)

// screen is the person's terminal, which one writer has at a time: the output of a task, the line that turns while polisctl
// waits, and a question. The zero value is ready.
type screen struct {
	mu     sync.Mutex
	turns  bool // a turning line is on it
	within bool // the output ended within a line
	asked  bool // a prompt that nobody answered is on it: what comes next begins a line
}

// hold gives the terminal to a question, on a line of its own; nothing else is written until release. out is the terminal.
func (s *screen) hold(out io.Writer) {
	s.mu.Lock()
	switch {
	case s.turns:
		fmt.Fprint(out, "\r"+ansi.EraseLineRight)
	case s.within || s.asked:
		fmt.Fprintln(out)
	}
	s.turns, s.within, s.asked = false, false, false
}

func (s *screen) release() { s.mu.Unlock() }

// turn draws the turning line, unless another writer has the terminal.
func (s *screen) turn(out io.Writer, line string) {
	if s.mu.TryLock() {
		defer s.mu.Unlock()
		s.turns, s.asked = true, false
		fmt.Fprint(out, "\r"+ansi.EraseLineRight+line)
	}
}

// endTurn removes the turning line. A writer that has the terminal has removed it, each at its beginning.
func (s *screen) endTurn(out io.Writer) {
	if s.mu.TryLock() {
		defer s.mu.Unlock()
		if s.turns {
			s.turns = false
			fmt.Fprint(out, "\r"+ansi.EraseLineRight)
		}
	}
}

// endPrompt ends the line of a prompt that nobody answered. It waits until the prompt has released the terminal.
func (s *screen) endPrompt(out io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked {
		s.asked = false
		fmt.Fprintln(out)
	}
}

// onScreen is a writer to the terminal that waits while a question has it, and removes the turning line.
type onScreen struct {
	s *screen
	w io.Writer
}

func (o onScreen) Write(p []byte) (int, error) {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	switch {
	case o.s.turns:
		fmt.Fprint(o.w, "\r"+ansi.EraseLineRight)
	case o.s.asked:
		fmt.Fprintln(o.w)
	}
	o.s.turns, o.s.asked = false, false
	n, err := o.w.Write(p)
	if n > 0 {
		o.s.within = p[n-1] != '\n'
	}
	return n, err
}
