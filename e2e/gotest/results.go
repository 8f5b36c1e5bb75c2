package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// mayBeFlaky returns how many tests of a run may fail and then pass alone: two, or one of a thousand. More say that
// something is wrong with the machine or with the product; each is a fault to be found.
func mayBeFlaky(tests int) int { return max(2, tests/1000) }

// record appends what is to be known of this run to the file results, which all invocations share
// that are one run (scripts/parts), and returns how many tests are flaky in it and how many may be.
// Without a file this invocation is the run.
func (r *report) record(results string, strict bool) (flaky, allowed int, err error) {
	flaky, tests := len(r.flaky), r.passed+len(r.failed)+len(r.skipped)+len(r.flaky)
	if results == "" {
		return flaky, mayBeFlaky(tests), nil
	}
	b, err := os.ReadFile(results)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, fmt.Errorf("read the results before: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		var n [4]int
		if strings.HasPrefix(line, "FLAKY ") {
			flaky++
		} else if got, _ := fmt.Sscanf(line, "COUNT %d %d %d %d", &n[0], &n[1], &n[2], &n[3]); got == len(n) { //nolint:errcheck // other lines
			tests += n[0] + n[1] + n[2] + n[3]
		}
	}
	allowed = mayBeFlaky(tests)
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
	if len(r.flaky) > 0 && flaky > allowed {
		fmt.Fprintf(&text, "FAILED: %d tests are flaky, more than %d\n", flaky, allowed)
	}
	fmt.Fprintln(&text, "COUNT", r.passed, len(r.failed), len(r.skipped), len(r.flaky))
	return flaky, allowed, appendTo(results, text.String())
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
