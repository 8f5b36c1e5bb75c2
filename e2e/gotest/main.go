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
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	r := newReport(out)
	readErr := r.read(events)
	var failed *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &failed) {
		return 1, err
	}
	if readErr != nil {
		return 1, fmt.Errorf("read the events of go test: %w", readErr)
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

// read takes events until the end. A line that is no event is of the go command
// and is printed.
func (r *report) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				_, _ = r.out.Write(line)
			} else {
				r.add(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
