package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// mayBeFlaky returns how many tests of a run may fail and then pass alone: two, or one of a thousand in a run of 3,000
// or more. More say that something is wrong with the machine or with the product; each is a fault to be found.
func mayBeFlaky(tests int) int { return max(2, tests/1000) }

// record appends what is to be known of this run to the file results, which all invocations share that are one run:
// scripts/parts counts the flaky tests of all, and judges.
func (r *report) record(results string, strict bool) error {
	var text strings.Builder
	for _, name := range r.flaky {
		fmt.Fprintln(&text, "FLAKY", name)
	}
	for _, f := range r.failed {
		fmt.Fprintln(&text, "FAILED:", oneLine(f.String()))
	}
	if strict {
		for _, s := range r.skipped {
			fmt.Fprintln(&text, "FAILED:", oneLine(fmt.Sprintf("%s %s (skipped: %s)", s.pkg, s.test, s.note)))
		}
	}
	fmt.Fprintln(&text, "COUNT", r.passed, len(r.failed), len(r.skipped), len(r.flaky))
	return appendTo(results, text.String())
}

// oneLine keeps a record one line.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }

// appendTo writes text to the end of a file that may be missing.
func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
