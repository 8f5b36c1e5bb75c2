package main

import (
	"bufio"
	"context"
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
	code, err := run(os.Args[1:], os.Stdout, os.Getenv("POLIS_TEST_RESULTS"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
	}
	os.Exit(code)
}

// run passes args to go test and returns the exit status. results is the file that the invocations
// of one run share, or empty.
func run(args []string, out io.Writer, results string) (int, error) {
	// A signal reaches the tests by itself, from the terminal or as members of the process group.
	// No further test begins then, and what is known is printed.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	sides, err := parseSides(args)
	if err != nil {
		return 2, err
	}
	r := newReport(out)
	if sides != nil {
		err = sides.run(ctx, r)
	} else {
		err = goTest(ctx, args, r)
	}
	if err != nil {
		r.failed = append(r.failed, failure{pkg: args[len(args)-1], note: "could not be tested"})
	}
	if ctx.Err() != nil {
		r.failed = append(r.failed, failure{pkg: "gotest", note: "stopped by a signal before its end"})
	}
	if !r.summary(os.Getenv("CI") != "", results) || err != nil {
		return 1, err
	}
	return 0, nil
}

// goTest runs go test, and once more the tests that failed.
func goTest(ctx context.Context, args []string, r *report) error {
	opts, _, err := parseOptions(args)
	if err != nil {
		return err
	}
	if err := r.goTest(args); err != nil {
		return err
	}
	r.runAgain(ctx, func(again *report, pkg, test string) error {
		return again.goTest(argsOfOne(opts, pkg, test))
	})
	return nil
}

// goTest runs go test and passes its output to the report. It returns an error if go test could not
// be run. What go test says with its exit status must be in the report, too.
func (r *report) goTest(args []string) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	readErr := r.read(events, "", &sync.Mutex{})
	if readErr != nil {
		readErr = fmt.Errorf("read the events of go test: %w", readErr)
		_, _ = io.Copy(io.Discard, events) //nolint:errcheck // so that it can end
	}
	waitErr := cmd.Wait()
	var failed *exec.ExitError
	if errors.As(waitErr, &failed) {
		waitErr = nil
		if r.allUnfinished(); len(r.failed) == 0 {
			r.failed = append(r.failed, failure{pkg: "go test", note: failed.Error()})
		}
	}
	return errors.Join(readErr, waitErr)
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
