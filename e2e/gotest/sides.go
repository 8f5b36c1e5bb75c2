package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// sidesOf takes "-sides N" off the arguments. The default is 1.
func sidesOf(args []string) (n int, rest []string, err error) {
	if len(args) == 0 || args[0] != "-sides" {
		return 1, args, nil
	}
	if len(args) < 3 {
		return 0, nil, errors.New("-sides N must be followed by arguments of go test, of which the last is one package")
	}
	if n, err = strconv.Atoi(args[1]); err != nil || n < 1 {
		return 0, nil, fmt.Errorf("-sides %q is not a positive number", args[1])
	}
	return n, args[2:], nil
}

// split divides the tests of the package that the last argument names among n calls of go test.
// Neighbours go to different ones: tests that take long are often in one file.
func split(n int, args []string) ([][]string, error) {
	if n == 1 {
		return [][]string{args}, nil
	}
	var out, errs bytes.Buffer
	which := "^Test"
	if i := slices.Index(args, "-run"); i >= 0 && i+1 < len(args)-1 {
		which, args = args[i+1], slices.Delete(slices.Clone(args), i, i+2)
	}
	list := exec.Command("go", append([]string{"test", "-list", which}, args...)...)
	list.Stdout, list.Stderr = &out, &errs
	if err := list.Run(); err != nil {
		return nil, fmt.Errorf("list the tests: %w\n%s%s", err, out.String(), errs.String())
	}
	parts := make([][]string, n)
	at := 0
	for line := range strings.Lines(out.String()) {
		if name := strings.TrimSpace(line); strings.HasPrefix(name, "Test") {
			parts[at%n] = append(parts[at%n], name)
			at++
		}
	}
	last := len(args) - 1
	var calls [][]string
	for _, p := range parts {
		if len(p) > 0 {
			calls = append(calls, append(append(append([]string{}, args[:last]...), "-run", "^("+strings.Join(p, "|")+")$"), args[last]))
		}
	}
	if calls == nil {
		return nil, fmt.Errorf("%s has no tests", args[last])
	}
	return calls, nil
}

// runSides runs the calls at the same time, into one report. It returns the failure of one that
// failed.
func runSides(calls [][]string, r *report) (failed *exec.ExitError, err error) {
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for i, args := range calls {
		cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
		cmd.Stderr = os.Stderr
		events, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
			break // those that run are waited for
		}
		side := ""
		if len(calls) > 1 {
			side = fmt.Sprintf(" (%d of %d)", i+1, len(calls))
		}
		wg.Go(func() {
			readErr := r.read(events, side, &mu)
			if readErr != nil {
				readErr = fmt.Errorf("read the events of go test: %w", readErr)
				_, _ = io.Copy(io.Discard, events) //nolint:errcheck // so that it can end
			}
			waitErr := cmd.Wait()
			mu.Lock()
			defer mu.Unlock()
			var exit *exec.ExitError
			if errors.As(waitErr, &exit) {
				failed, waitErr = exit, nil
			}
			errs = append(errs, readErr, waitErr)
		})
	}
	wg.Wait()
	return failed, errors.Join(errs...)
}
