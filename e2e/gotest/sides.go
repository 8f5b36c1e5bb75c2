package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// sided is a run of one package's tests, a process for each, several at a time.
type sided struct {
	sides   int
	build   []string      // options of go test -c
	test    []string      // options of the test program
	which   string        // the tests
	timeout time.Duration // of one test
	pkg     string
}

// defaultTimeout is that of go test.
const defaultTimeout = 10 * time.Minute

// parseSides reads "-sides N OPTION... PACKAGE". It returns nil if args do not begin with -sides.
func parseSides(args []string) (*sided, error) {
	if len(args) == 0 || args[0] != "-sides" {
		return nil, nil
	}
	if len(args) < 3 {
		return nil, errors.New("-sides N must be followed by options of go test and one package")
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 1 {
		return nil, fmt.Errorf("-sides %q is not a positive number", args[1])
	}
	s := &sided{sides: n, which: "^Test", timeout: defaultTimeout, pkg: args[len(args)-1]}
	for rest := args[2 : len(args)-1]; len(rest) > 0; rest = rest[1:] {
		name, value, has := strings.Cut(rest[0], "=")
		if !has && slices.Contains([]string{"-tags", "-run", "-count", "-timeout"}, name) {
			if len(rest) == 1 {
				return nil, fmt.Errorf("%s needs a value", name)
			}
			value, rest = rest[1], rest[1:]
		}
		switch name {
		case "-tags":
			s.build = append(s.build, "-tags", value)
		case "-race":
			s.build = append(s.build, name)
		case "-short":
			s.test = append(s.test, "-test.short")
		case "-run":
			s.which = value
		case "-count":
			s.test = append(s.test, "-test.count="+value)
		case "-timeout":
			if s.timeout, err = time.ParseDuration(value); err != nil || s.timeout <= 0 {
				return nil, fmt.Errorf("-timeout %q is not a positive duration", value)
			}
		default:
			return nil, fmt.Errorf("with -sides there is no option %s", name)
		}
	}
	return s, nil
}

// program is a built test program.
type program struct {
	file, dir, pkg string
	test2json      string
}

// run builds the package's tests and runs them. It reports whether all of them passed.
func (s *sided) run(r *report) (bool, error) {
	tmp, err := os.MkdirTemp("", "gotest-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(tmp)
	p, err := s.buildIn(tmp)
	if err != nil {
		return false, err
	}
	return s.runTests(r, p)
}

// buildIn builds the test program in a directory.
func (s *sided) buildIn(tmp string) (program, error) {
	p := program{file: filepath.Join(tmp, "test")}
	if _, err := output("", "go", append(append([]string{"test", "-c", "-o", p.file}, s.build...), s.pkg)...); err != nil {
		return p, err
	}
	where, err := output("", "go", append(append([]string{"list", "-f", "{{.Dir}}\n{{.ImportPath}}"}, s.build...), s.pkg)...)
	if err != nil {
		return p, err
	}
	p.dir, p.pkg, _ = strings.Cut(strings.TrimSpace(where), "\n")
	p.test2json, err = output("", "go", "tool", "-n", "test2json")
	p.test2json = strings.TrimSpace(p.test2json)
	return p, err
}

// runTests runs the tests of a built program. It reports whether all of them passed.
func (s *sided) runTests(r *report, p program) (bool, error) {
	all, err := p.tests("^Test")
	if err != nil {
		return false, err
	}
	which, err := p.tests(s.which)
	if err != nil {
		return false, err
	}
	order, err := readOrder(filepath.Join(p.dir, "testdata", "order.txt"), all)
	if err != nil {
		return false, err
	}
	r.sided = true
	together, alone := order.apply(which)
	ok := s.queue(r, p, together, s.sides)
	// A test that measures costs would measure its neighbours, too.
	return s.queue(r, p, alone, 1) && ok, nil
}

// tests lists the tests that match.
func (p program) tests(which string) ([]string, error) {
	out, err := output(p.dir, p.file, "-test.list", which)
	if err != nil {
		return nil, fmt.Errorf("list the tests: %w", err)
	}
	var names []string
	for line := range strings.Lines(out) {
		if name := strings.TrimSpace(line); strings.HasPrefix(name, "Test") {
			names = append(names, name)
		}
	}
	if names == nil {
		return nil, fmt.Errorf("%s has no tests that match %s", p.pkg, which)
	}
	return names, nil
}

// queue runs tests on n sides: a side that has ended one takes the next. It reports whether all of
// them passed.
func (s *sided) queue(r *report, p program, tests []string, n int) bool {
	next := make(chan string, len(tests))
	for _, name := range tests {
		next <- name
	}
	close(next)
	var mu sync.Mutex
	passed := true
	var wg sync.WaitGroup
	for i := range min(n, len(tests)) {
		wg.Go(func() {
			began, count := time.Now(), 0
			for name := range next {
				ok := s.one(r, p, name, &mu)
				count++
				mu.Lock()
				passed = passed && ok
				mu.Unlock()
			}
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(r.out, "end  %s (%d of %d) %.1fs, %d tests\n", p.pkg, i+1, n, time.Since(began).Seconds(), count)
		})
	}
	wg.Wait()
	return passed
}

// one runs a test in a process of its own, so that what ends the process ends no other test.
func (s *sided) one(r *report, p program, name string, mu *sync.Mutex) bool {
	// The test program ends itself after its timeout, and says where it was. A
	// process that it left can hold its output open after that.
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout+time.Minute)
	defer cancel()
	args := append([]string{"-t", "-p", p.pkg, p.file, "-test.v=test2json", "-test.paniconexit0",
		"-test.timeout=" + s.timeout.String(), "-test.run=^" + name + "$"}, s.test...)
	cmd := exec.CommandContext(ctx, p.test2json, args...)
	cmd.Dir, cmd.Stderr, cmd.WaitDelay = p.dir, os.Stderr, time.Second
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		err = r.read(events, " "+name, mu)
		err = errors.Join(err, cmd.Wait())
	}
	mu.Lock()
	defer mu.Unlock()
	return r.endProcess(p.pkg, name, err)
}

// output runs a program and returns its standard output.
func output(dir, name string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String(), nil
}
