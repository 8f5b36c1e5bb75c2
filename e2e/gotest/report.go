package main

import (
	"fmt"
	"io"
	"slices"
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

// failure is a test that failed, or a package if test is empty.
type failure struct {
	pkg, test, note string
	text            string // what it wrote
}

func (f failure) String() string {
	name := strings.TrimSpace(f.pkg + " " + f.test)
	if f.note != "" {
		name += " (" + f.note + ")"
	}
	return name
}

// report collects the events of go test.
type report struct {
	out     io.Writer
	output  map[key]*strings.Builder
	cut     map[key]bool
	skipped []failure // the note is the reason
	failed  []failure
	flaky   []string // package.Test
	passed  int
	whole   map[string]bool // packages whose tests failed and all came to an end
	sided   bool            // a package is many processes, see endProcess
	results map[key]string
}

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[key]*strings.Builder{}, cut: map[key]bool{},
		whole: map[string]bool{}, results: map[key]string{}}
}

func (r *report) add(e event) {
	k := key{e.Package, e.Test}
	switch e.Action {
	case "output":
		r.hold(k, e.Output)
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "build-fail":
		r.failed = append(r.failed, failure{pkg: e.ImportPath, note: "does not build"})
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
	whole := false
	if k.test == "" {
		whole = !r.unfinished(k.pkg) && r.isWhole(k.pkg, text)
	}
	if e.Action == "fail" {
		known := k.test == "" && slices.ContainsFunc(r.failed, func(f failure) bool { return f.pkg == k.pkg && f.test == "" })
		r.fail(k, text, failure{pkg: k.pkg, test: k.test})
		if whole || known { // what failed in it, or that it does not build
			r.failed = r.failed[:len(r.failed)-1]
		}
	}
	switch {
	case k.test == "":
		r.whole[k.pkg] = whole && e.Action == "fail"
		fmt.Fprintf(r.out, "%-4s %s %.1fs\n", e.Action, k.pkg, e.Elapsed)
	case e.Action == "skip":
		r.skipped = append(r.skipped, failure{pkg: k.pkg, test: k.test, note: reason(text)})
	case e.Action == "pass":
		r.passed++
		if e.Elapsed >= slow && !strings.Contains(k.test, "/") {
			fmt.Fprintf(r.out, "     %s %.1fs\n", k.test, e.Elapsed)
		}
	}
}

// isWhole reports whether a package failed because of tests that failed, after all of its tests. A
// panic, the time limit or os.Exit ends the process before: then the tests after it did not run.
func (r *report) isWhole(pkg string, text *strings.Builder) bool {
	if !slices.ContainsFunc(r.failed, func(f failure) bool { return f.pkg == pkg && f.test != "" }) {
		return false
	}
	// The program's own word at the end of its tests; the go command's has the package beside it.
	return text != nil && strings.Contains("\n"+text.String(), "\nFAIL\n") && !strings.Contains(text.String(), "\nexit status ")
}

// fail prints what a test wrote and counts its failure.
func (r *report) fail(k key, text *strings.Builder, f failure) {
	if text != nil {
		f.text = text.String()
		fmt.Fprint(r.out, f.text)
	}
	if r.cut[k] {
		fmt.Fprintf(r.out, "gotest: the output of %s was longer than %d bytes and is cut\n", f, keep)
	}
	r.failed = append(r.failed, f)
}

// endProcess ends a process that ran one test of a package. err is how the process ended. Its own
// output has the test's name after the package's.
func (r *report) endProcess(pkg, test string, err error) {
	before := len(r.failed)
	for k, text := range r.output {
		if k.pkg == pkg && (k.test == test || strings.HasPrefix(k.test, test+"/")) {
			r.fail(k, text, failure{pkg: pkg, test: k.test, note: "did not end"})
			delete(r.output, k)
		}
	}
	own := key{pkg: pkg + " " + test}
	text := r.output[own]
	delete(r.output, own)
	switch result := r.results[key{pkg, test}]; {
	case result == "fail" || len(r.failed) > before:
	case result == "":
		r.fail(own, text, failure{pkg: pkg, test: test, note: "did not run"})
	case err != nil:
		r.fail(own, text, failure{pkg: pkg, test: test, note: fmt.Sprintf("its process: %v", err)})
	}
}

// reason returns the last line of a skipped test, which has the reason.
func reason(text *strings.Builder) string {
	if text == nil {
		return ""
	}
	why := ""
	for _, line := range strings.Split(text.String(), "\n") {
		if s := strings.TrimSpace(line); s != "" && !strings.HasPrefix(s, "---") && !strings.HasPrefix(s, "===") {
			why = s
		}
	}
	return why
}

// unfinished counts the tests of a package that have no end as failures, and reports whether there
// are any: a crash or the time limit of their package leaves them. Their last words are the reason.
func (r *report) unfinished(pkg string) bool {
	found := false
	for k, text := range r.output {
		if k.pkg == pkg && r.results[k] == "" && text.Len() > 0 {
			r.fail(k, text, failure{pkg: k.pkg, test: k.test, note: "did not end"})
			delete(r.output, k)
			found = true
		}
	}
	return found
}

// allUnfinished does so for all packages, at the end of everything.
func (r *report) allUnfinished() {
	for k := range r.output {
		r.unfinished(k.pkg)
	}
}

// summary prints the end and reports whether every test passed, the first time or the second. If
// strict, a skipped test is a failure. What must be known of the run is recorded in results.
func (r *report) summary(strict bool, results string) bool {
	r.allUnfinished()
	for _, s := range r.skipped {
		fmt.Fprintf(r.out, "skipped: %s %s: %s\n", s.pkg, s.test, s.note)
	}
	for _, name := range r.flaky {
		fmt.Fprintln(r.out, "FLAKY", name)
	}
	for _, f := range r.failed {
		fmt.Fprintln(r.out, "FAILED:", f)
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped, %d flaky\n", r.passed, len(r.failed), len(r.skipped), len(r.flaky))
	ok := len(r.failed) == 0
	if strict && len(r.skipped) > 0 {
		fmt.Fprintln(r.out, "gotest: in CI no test may be skipped")
		ok = false
	}
	if results != "" {
		if err := r.record(results, strict); err != nil {
			fmt.Fprintln(r.out, "gotest:", err)
			ok = false
		}
		return ok
	}
	if most := mayBeFlaky(r.passed + len(r.failed) + len(r.skipped) + len(r.flaky)); len(r.flaky) > most {
		fmt.Fprintf(r.out, "gotest: %d tests of this run are flaky, more than %d\n", len(r.flaky), most)
		ok = false
	}
	return ok
}
