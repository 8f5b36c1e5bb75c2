package git

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrTooLarge is returned when git prints more than the bound.
	ErrTooLarge = errors.New("git printed more than the bound")
	// ErrNotFound is returned for a revision or ref that does not exist.
	ErrNotFound = errors.New("no such revision")
	// ErrRefMoved is returned when a ref does not have the expected value.
	ErrRefMoved = errors.New("the ref has moved meanwhile")
	// ErrDamaged is returned when objects that a ref reaches are missing or cannot be read.
	ErrDamaged = errors.New("the repository is damaged")
	// ErrBadName is returned for a string that is not a usable branch name.
	ErrBadName = errors.New("not a usable branch name")
	// ErrBadRepo is returned when a directory is not a repository polis can use.
	ErrBadRepo = errors.New("not a usable git repository")
)

// ExitError reports that git ran and failed.
type ExitError struct {
	Args   []string // as given, without the binary
	Code   int      // exit code; -1 if killed by a signal
	Stderr string   // bounded, trimmed
	cause  error
}

func (e *ExitError) Error() string {
	verb := "git"
	if len(e.Args) > 0 {
		verb = "git " + e.Args[0]
	}
	if line := e.Line(); line != "" {
		return fmt.Sprintf("%s: %s", verb, line)
	}
	return fmt.Sprintf("%s: exit status %d", verb, e.Code)
}

// Unwrap returns the error of os/exec, or the context's.
func (e *ExitError) Unwrap() error { return e.cause }

// Line returns the most specific line of standard error: the last one that begins with "fatal:" or
// "error:", else the last one.
func (e *ExitError) Line() string {
	lines := strings.Split(strings.TrimSpace(e.Stderr), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		for _, mark := range []string{"fatal: ", "error: "} {
			if rest, ok := strings.CutPrefix(lines[i], mark); ok {
				return withList(rest, lines[i+1:])
			}
		}
	}
	return lines[len(lines)-1]
}

// maxListed bounds the names that follow a line of git which ends with a colon.
const maxListed = 3

// withList adds to a line that ends with a colon the names that git lists below it, one on each
// indented line.
func withList(line string, below []string) string {
	if !strings.HasSuffix(line, ":") {
		return line
	}
	var names []string
	for _, l := range below {
		name, ok := strings.CutPrefix(l, "\t")
		if !ok {
			break
		}
		names = append(names, name)
	}
	switch n := len(names); {
	case n == 0:
		return strings.TrimSuffix(line, ":")
	case n > maxListed:
		return fmt.Sprintf("%s %s and %d more (git status lists changed and new files)", line, strings.Join(names[:maxListed], ", "), n-maxListed)
	}
	return line + " " + strings.Join(names, ", ")
}

// ExitCode returns git's exit code, and whether err is the failure of a git that ran.
func ExitCode(err error) (int, bool) {
	var e *ExitError
	if errors.As(err, &e) && e.cause == nil {
		return e.Code, true
	}
	return 0, false
}
