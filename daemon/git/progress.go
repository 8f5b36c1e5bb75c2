package git

import (
	"bytes"
	"io"
	"strconv"
	"strings"
)

// Step is the progress of one part of git's work.
type Step struct {
	// What is git's name of the part, such as "Receiving objects".
	What string
	// Percent is -1 if git does not know the total.
	Percent int
	// Rest is what git appends: counts, bytes, speed.
	Rest string
}

// String returns the step as one line.
func (s Step) String() string {
	if s.Percent < 0 {
		return strings.TrimSpace(s.What + ": " + s.Rest)
	}
	return strings.TrimSpace(s.What + ": " + strconv.Itoa(s.Percent) + "% " + s.Rest)
}

// maxStep is the longest line of progress, in bytes. A longer line is not progress.
const maxStep = 512

// parseStep parses a line of git's --progress (progress.c). Lines of the remote side begin with
// "remote: ".
func parseStep(line string) (Step, bool) {
	line = strings.TrimRight(strings.TrimPrefix(line, "remote: "), " ")
	what, rest, ok := strings.Cut(line, ": ")
	switch what {
	case "", "fatal", "error", "warning", "hint":
		return Step{}, false
	}
	if !ok || len(line) > maxStep || strings.ContainsAny(what, "'\"\x1b/") {
		return Step{}, false
	}
	for i := range len(line) {
		if line[i] < ' ' {
			return Step{}, false
		}
	}
	rest = strings.TrimLeft(rest, " ")
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	if digits == 0 || digits > 18 {
		return Step{}, false
	}
	n, err := strconv.Atoi(rest[:digits])
	if err != nil {
		return Step{}, false
	}
	after := rest[digits:]
	switch {
	case strings.HasPrefix(after, "% ("), after == "%":
		if n > 100 {
			return Step{}, false
		}
		return Step{What: what, Percent: n, Rest: strings.TrimSpace(after[1:])}, true
	case after == "" || strings.HasPrefix(after, ", "):
		return Step{What: what, Percent: -1, Rest: rest}, true
	}
	return Step{}, false
}

// stepper passes progress to the function say, and all other output to rest. It reports the start and the end
// of a part, and every few percent between.
type stepper struct {
	say  func(Step)
	rest io.Writer
	line []byte
	last Step
}

// every is the number of percent between two reported Steps.
const every = 5

func (s *stepper) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexAny(p, "\r\n")
		if i < 0 {
			s.line = append(s.line, p...)
			if len(s.line) > maxStep { // not progress
				return n, s.flush(false)
			}
			return n, nil
		}
		s.line = append(s.line, p[:i]...)
		if err := s.flush(true); err != nil {
			return n, err
		}
		p = p[i+1:]
	}
	return n, nil
}

// flush classifies the line that was read.
func (s *stepper) flush(ended bool) error {
	line := s.line
	s.line = s.line[:0]
	st, ok := parseStep(string(line))
	if ended && ok {
		if st.What != s.last.What || st.Percent >= s.last.Percent+every || st.Percent == 100 && s.last.Percent != 100 {
			s.last = st
			s.say(st)
		}
		return nil
	}
	if ended {
		line = append(line, '\n')
	}
	_, err := s.rest.Write(line)
	return err
}

// end passes on a last line without a line break.
func (s *stepper) end() error {
	if len(s.line) == 0 {
		return nil
	}
	return s.flush(true)
}
