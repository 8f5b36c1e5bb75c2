package main

import (
	"fmt"
	"io"
	"strings"
)

// event is one line of go test -json; see "go doc test2json".
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Elapsed    float64 // seconds
	Output     string
}

// keep bounds the output kept of one test until its end is known.
const keep = 1 << 20

// slow is from how many seconds on a test that passed has a line, so that a
// long run shows progress.
const slow = 5

type key struct{ pkg, test string }

// report collects the events of go test.
type report struct {
	out     io.Writer
	output  map[key]*strings.Builder
	cut     map[key]bool
	skipped []string
	failed  []string
	passed  int
	ended   map[string]bool // packages that came to an end
	sided   bool            // a package is many processes, see endProcess
	results map[key]string
}

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[key]*strings.Builder{}, cut: map[key]bool{}, ended: map[string]bool{}, results: map[key]string{}}
}

func (r *report) add(e event) {
	k := key{e.Package, e.Test}
	switch e.Action {
	case "output":
		r.hold(k, e.Output)
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "build-fail":
		r.failed = append(r.failed, e.ImportPath+" (does not build)")
	case "pass", "fail", "skip":
		r.end(k, e)
	}
}

// hold keeps output until the test ends. The output of a passing test is dropped.
func (r *report) hold(k key, text string) {
	b := r.output[k]
	if b == nil {
		b = &strings.Builder{}
		r.output[k] = b
	}
	if b.Len()+len(text) > keep {
		r.cut[k] = true
		return
	}
	b.WriteString(text)
}

func (r *report) end(k key, e event) {
	r.results[k] = e.Action
	if k.test == "" && r.sided {
		return // endProcess ends it
	}
	text := r.output[k]
	delete(r.output, k)
	name := k.pkg
	if k.test != "" {
		name += " " + k.test
	}
	if e.Action == "fail" {
		r.fail(k, text, name)
	}
	switch {
	case k.test == "":
		r.ended[k.pkg] = true
		fmt.Fprintf(r.out, "%-4s %s %.1fs\n", e.Action, k.pkg, e.Elapsed)
	case e.Action == "skip":
		r.skipped = append(r.skipped, name+reason(text))
	case e.Action == "pass":
		r.passed++
		if e.Elapsed >= slow && !strings.Contains(k.test, "/") {
			fmt.Fprintf(r.out, "     %s %.1fs\n", k.test, e.Elapsed)
		}
	}
}

// fail prints what a test wrote and counts its failure.
func (r *report) fail(k key, text *strings.Builder, name string) {
	if text != nil {
		fmt.Fprint(r.out, text.String())
	}
	if r.cut[k] {
		fmt.Fprintf(r.out, "gotest: the output of %s was longer than %d bytes and is cut\n", name, keep)
	}
	r.failed = append(r.failed, name)
}

// endProcess ends a process that ran one test of a package, and reports whether all is well with
// it. err is how the process ended. Its own output has the test's name after the package's.
func (r *report) endProcess(pkg, test string, err error) bool {
	before := len(r.failed)
	for k, text := range r.output {
		if k.pkg == pkg && (k.test == test || strings.HasPrefix(k.test, test+"/")) {
			r.fail(k, text, pkg+" "+k.test+" (did not end)")
			delete(r.output, k)
		}
	}
	own := key{pkg: pkg + " " + test}
	text := r.output[own]
	delete(r.output, own)
	switch result := r.results[key{pkg, test}]; {
	case result == "fail" || len(r.failed) > before:
	case result == "":
		r.fail(own, text, pkg+" "+test+" (did not run)")
	case err != nil:
		r.fail(own, text, fmt.Sprintf("%s %s (its process: %v)", pkg, test, err))
	default:
		return true
	}
	return false
}

// reason returns the last line of a skipped test, which has the reason.
func reason(text *strings.Builder) string {
	if text == nil {
		return ""
	}
	why := ""
	for _, line := range strings.Split(text.String(), "\n") {
		if s := strings.TrimSpace(line); s != "" && !strings.HasPrefix(s, "---") && !strings.HasPrefix(s, "===") {
			why = ": " + s
		}
	}
	return why
}

// summary prints the end and reports whether every test passed. If strict, a skipped test is a
// failure.
func (r *report) summary(strict bool) bool {
	// A test that never ended is what a crash or the time limit of its package
	// leaves; its last words are the reason.
	for k, text := range r.output {
		if k.test != "" && !r.ended[k.pkg] || k.test == "" && text.Len() > 0 && !r.ended[k.pkg] {
			fmt.Fprint(r.out, text.String())
			r.failed = append(r.failed, k.pkg+" "+k.test+" (did not end)")
		}
	}
	for _, s := range r.skipped {
		fmt.Fprintln(r.out, "skipped:", s)
	}
	for _, f := range r.failed {
		fmt.Fprintln(r.out, "FAILED:", f)
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, len(r.failed), len(r.skipped))
	if strict && len(r.skipped) > 0 {
		fmt.Fprintln(r.out, "gotest: in CI no test may be skipped")
		return false
	}
	return len(r.failed) == 0
}
