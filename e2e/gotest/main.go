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
	sides, err := parseSides(args)
	if err != nil {
		return 2, err
	}
	r := newReport(out)
	if sides != nil {
		passed, err := sides.run(r)
		if err != nil {
			return 1, err
		}
		if !r.summary(os.Getenv("CI") != "") || !passed {
			return 1, nil
		}
		return 0, nil
	}
	failed, err := goTest(args, r)
	if err != nil {
		return 1, err
	}
	ok := r.summary(os.Getenv("CI") != "")
	return exitStatus(ok, failed), nil
}

// goTest runs go test and passes its output to the report. It returns an error if go test could not
// be run.
func goTest(args []string, r *report) (failed *exec.ExitError, err error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	readErr := r.read(events, "", &sync.Mutex{})
	if readErr != nil {
		readErr = fmt.Errorf("read the events of go test: %w", readErr)
		_, _ = io.Copy(io.Discard, events) //nolint:errcheck // so that it can end
	}
	waitErr := cmd.Wait()
	if errors.As(waitErr, &failed) {
		waitErr = nil
	}
	return failed, errors.Join(readErr, waitErr)
}

// exitStatus returns the status of go test, or 1 if go test succeeded and the summary found a
// failure.
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
// command and is printed. process is appended to the name of the package in what is of no test, so
// that processes of one package can be read at the same time.
func (r *report) read(from io.Reader, process string, mu sync.Locker) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			mu.Lock()
			if json.Unmarshal(line, &e) != nil {
				_, _ = r.out.Write(line)
			} else {
				if e.Package != "" && e.Test == "" {
					e.Package += process
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
