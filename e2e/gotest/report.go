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

// report collects what go test says.
type report struct {
	out     io.Writer
	output  map[key]*strings.Builder
	cut     map[key]bool
	skipped []string
	failed  []string
	passed  int
	ended   map[string]bool // packages that came to an end
}

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[key]*strings.Builder{}, cut: map[key]bool{}, ended: map[string]bool{}}
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

// hold keeps output until the test ends; what a passing test said is dropped.
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
	text := r.output[k]
	delete(r.output, k)
	name := k.pkg
	if k.test != "" {
		name += " " + k.test
	}
	if e.Action == "fail" {
		if text != nil {
			fmt.Fprint(r.out, text.String())
		}
		if r.cut[k] {
			fmt.Fprintf(r.out, "gotest: the output of %s was longer than %d bytes and is cut\n", name, keep)
		}
		r.failed = append(r.failed, name)
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

// reason is the last line a skipped test said, which is why it was skipped.
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

// summary prints the end and reports whether all is well. strict makes a
// skipped test a failure.
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
