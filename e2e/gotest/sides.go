package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	count   string        // how often each test runs
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
	opts, pkgs, err := parseOptions(args[2:])
	if err != nil {
		return nil, err
	}
	if len(pkgs) != 1 {
		return nil, fmt.Errorf("-sides needs one package, not %d", len(pkgs))
	}
	s := &sided{sides: n, which: "^Test", timeout: defaultTimeout, pkg: pkgs[0]}
	for _, o := range opts {
		switch o.name {
		case "-tags", "-race":
			s.build = append(s.build, o.arg...)
		case "-short":
			s.test = append(s.test, "-test.short")
		case "-run":
			s.which = o.value
		case "-count":
			s.count = o.value
		case "-timeout":
			if s.timeout, err = time.ParseDuration(o.value); err != nil || s.timeout <= 0 {
				return nil, fmt.Errorf("-timeout %q is not a positive duration", o.value)
			}
		default:
			return nil, fmt.Errorf("with -sides there is no option %s", o.name)
		}
	}
	return s, nil
}

// program is a built test program.
type program struct {
	file, dir, pkg string
	test2json      string
}

// run builds the package's tests and runs them, and once more those that failed.
func (s *sided) run(ctx context.Context, r *report) error {
	tmp, err := os.MkdirTemp("", "gotest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	p, err := s.buildIn(tmp)
	if err != nil {
		return err
	}
	return s.runBuilt(ctx, r, p)
}

// runBuilt is run for a built program.
func (s *sided) runBuilt(ctx context.Context, r *report, p program) error {
	if err := s.runTests(ctx, r, p); err != nil {
		return err
	}
	once := *s
	once.count = "1"
	r.runAgain(ctx, func(again *report, _, test string) error {
		again.sided = true
		once.one(again, p, test, &sync.Mutex{})
		return nil
	})
	return nil
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

// runTests runs the tests of a built program.
func (s *sided) runTests(ctx context.Context, r *report, p program) error {
	all, err := p.tests("^Test")
	if err != nil {
		return err
	}
	which, err := p.tests(s.which)
	if err != nil {
		return err
	}
	order, err := readOrder(filepath.Join(p.dir, "testdata", "order.txt"), all)
	if err != nil {
		return err
	}
	r.sided = true
	together, alone := order.apply(which)
	s.queue(ctx, r, p, together, s.sides)
	// A test that measures costs would measure its neighbours, too.
	s.queue(ctx, r, p, alone, 1)
	return nil
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

// queue runs tests on n sides: a side that has ended one takes the next, until ctx ends.
func (s *sided) queue(ctx context.Context, r *report, p program, tests []string, n int) {
	next := make(chan string, len(tests))
	for _, name := range tests {
		next <- name
	}
	close(next)
	var mu sync.Mutex
	left := len(tests)
	var wg sync.WaitGroup
	for i := range min(n, len(tests)) {
		wg.Go(func() {
			began, count := time.Now(), 0
			for name := range next {
				if ctx.Err() != nil {
					break
				}
				s.one(r, p, name, &mu)
				count++
			}
			mu.Lock()
			defer mu.Unlock()
			left -= count
			fmt.Fprintf(r.out, "end  %s (%d of %d) %.1fs, %d tests\n", p.pkg, i+1, n, time.Since(began).Seconds(), count)
		})
	}
	wg.Wait()
	if left > 0 {
		r.failed = append(r.failed, failure{pkg: p.pkg, note: fmt.Sprintf("tests that did not begin: %d", left)})
	}
}

// one runs a test in a process of its own, so that what ends the process ends no other test.
func (s *sided) one(r *report, p program, name string, mu *sync.Mutex) {
	// The test program ends itself after its timeout, and says where it was. A
	// process that it left can hold its output open after that.
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout+time.Minute)
	defer cancel()
	args := append([]string{"-t", "-p", p.pkg, p.file, "-test.v=test2json", "-test.paniconexit0",
		"-test.timeout=" + s.timeout.String(), "-test.run=^" + name + "$"}, s.test...)
	if s.count != "" {
		args = append(args, "-test.count="+s.count)
	}
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
	r.endProcess(p.pkg, name, err)
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
