package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

func main() {
	code, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
	}
	os.Exit(code)
}

// run passes args to go test and returns the exit status.
func run(args []string, out io.Writer) (int, error) {
	// go test gets the signals of the terminal itself, and ends its tests.
	signal.Ignore(syscall.SIGINT)
	n, args, err := sidesOf(args)
	if err != nil {
		return 2, err
	}
	calls, err := split(n, args)
	if err != nil {
		return 1, err
	}
	r := newReport(out)
	failed, err := runSides(calls, r)
	if err != nil {
		return 1, err
	}
	ok := r.summary(os.Getenv("CI") != "")
	return exitStatus(ok, failed), nil
}

// exitStatus is that of go test, or 1 if it is content and the summary is not.
func exitStatus(ok bool, failed *exec.ExitError) int {
	switch {
	case failed != nil:
		return max(failed.ExitCode(), 1)
	case !ok:
		return 1
	}
	return 0
}

// read takes events until the end, with mu held for each. A line that is no event is of the go
// command and is printed. side is appended to the names of packages.
func (r *report) read(from io.Reader, side string, mu sync.Locker) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			mu.Lock()
			if json.Unmarshal(line, &e) != nil {
				_, _ = r.out.Write(line)
			} else {
				if e.Package != "" {
					e.Package += side
				}
				r.add(e)
			}
			mu.Unlock()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
