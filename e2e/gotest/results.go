package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// mayBeFlaky is how many tests of one run may fail and then pass alone.
const mayBeFlaky = 2

// record appends what is to be known of this run to the file results, which all invocations share
// that are one run (scripts/parts), and returns how many tests are flaky in it. Without a file this
// invocation is the run.
func (r *report) record(results string, strict bool) (flaky int, err error) {
	if results == "" {
		return len(r.flaky), nil
	}
	b, err := os.ReadFile(results)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("read the results before: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "FLAKY ") {
			flaky++
		}
	}
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
	if flaky += len(r.flaky); len(r.flaky) > 0 && flaky > mayBeFlaky {
		fmt.Fprintf(&text, "FAILED: %d tests are flaky, more than %d\n", flaky, mayBeFlaky)
	}
	fmt.Fprintln(&text, "COUNT", r.passed, len(r.failed), len(r.skipped), len(r.flaky))
	return flaky, appendTo(results, text.String())
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
