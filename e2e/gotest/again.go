package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
)

// maxAgain bounds how many tests are run again: a run with more failures than that has a fault.
const maxAgain = 8

// runAgain runs each test that failed once more, alone, by run. One that passes is counted as flaky
// instead of failed. A failure without a test, and one that a second run cannot disprove, stays.
func (r *report) runAgain(ctx context.Context, run func(again *report, pkg, test string) error) {
	r.allUnfinished()
	tests := r.failedTests()
	for i, k := range tests {
		switch {
		case ctx.Err() != nil:
			return
		case i == maxAgain:
			fmt.Fprintf(r.out, "gotest: %d more tests that failed are not run again\n", len(tests)-i)
			return
		case !r.forgivable(k):
			continue
		}
		var out bytes.Buffer
		again := newReport(&out)
		fmt.Fprintf(r.out, "gotest: %s %s failed and is run once more, alone\n", k.pkg, k.test)
		err := run(again, k.pkg, k.test)
		again.allUnfinished()
		name := k.pkg + "." + k.test
		if err != nil || len(again.failed) > 0 || len(again.skipped) > 0 || again.results[k] != "pass" {
			fmt.Fprintf(r.out, "%sgotest: %s failed again\n", out.String(), name)
			if err != nil {
				fmt.Fprintln(r.out, "gotest:", err)
			}
			continue
		}
		fmt.Fprintf(r.out, "FLAKY %s: it passed alone. The first time it failed with:\n%sgotest: end of the first output of %s\n", name, r.textOf(k), name)
		r.forgive(k)
	}
}

// failedTests returns the tests that failed, without their parts, in the order of their failures.
func (r *report) failedTests() []key {
	var tests []key
	for _, f := range r.failed {
		if k := (key{f.pkg, top(f.test)}); k.test != "" && !slices.Contains(tests, k) {
			tests = append(tests, k)
		}
	}
	return tests
}

// top returns the test of which a part has failed.
func top(test string) string {
	name, _, _ := strings.Cut(test, "/")
	return name
}

// forgivable reports whether a second run alone can show that a failure came by chance. It cannot if
// the tests after it did not run, which is so unless a process is of one test. Nor can it disprove a
// data race that was seen.
func (r *report) forgivable(k key) bool {
	text := r.textOf(k)
	if strings.Contains(text, "WARNING: DATA RACE") || strings.Contains(text, "race detected during execution of test") {
		fmt.Fprintf(r.out, "gotest: %s %s had a data race and is not run again\n", k.pkg, k.test)
		return false
	}
	if !r.sided && !r.whole[k.pkg] {
		fmt.Fprintf(r.out, "gotest: %s %s is not run again: not all tests of its package came to their end\n", k.pkg, k.test)
		return false
	}
	return true
}

// textOf returns what a failed test and its parts wrote.
func (r *report) textOf(k key) string {
	var text strings.Builder
	for _, f := range r.failed {
		if f.pkg == k.pkg && top(f.test) == k.test {
			text.WriteString(f.text)
		}
	}
	return text.String()
}

// forgive makes a failed test a flaky one.
func (r *report) forgive(k key) {
	r.flaky = append(r.flaky, k.pkg+"."+k.test)
	r.failed = slices.DeleteFunc(r.failed, func(f failure) bool { return f.pkg == k.pkg && top(f.test) == k.test })
}
