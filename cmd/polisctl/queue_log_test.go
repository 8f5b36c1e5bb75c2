package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

// Whatever a check printed, each line on the terminal is marked, has nothing that a terminal acts on, and none is missing.
func TestEachLineOfACheckIsMarked(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab]P\n\r\t\x1b\x07\x00\u009b\u202e"))).Draw(rt, "text")
		var out bytes.Buffer
		if err := copyMarked(&out, iotest.OneByteReader(strings.NewReader(text))); err != nil {
			rt.Fatal(err)
		}
		want := strings.Count(text, "\n")
		if text != "" && !strings.HasSuffix(text, "\n") {
			want++
		}
		if n := strings.Count(out.String(), "\n"); n != want {
			rt.Fatalf("%q has %d lines, not %d: %q", text, n, want, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if !strings.HasPrefix(line, "  | ") || strings.ContainsAny(line, "\x1b\x07\x00\r\u009b\u202e") {
				rt.Fatalf("%q is shown as %q", text, line)
			}
		}
	})
	var out bytes.Buffer
	require.NoError(t, copyMarked(&out, strings.NewReader(strings.Repeat("x", 200<<10)+"\nend\n")))
	require.Equal(t, 2, strings.Count(out.String(), "  | "), "a line that is longer than the buffer is one line")
}

func TestAFailedCheckShowsItsLastLines(t *testing.T) {
	out, err := os.CreateTemp(t.TempDir(), "stderr")
	require.NoError(t, err)
	defer out.Close()
	a := &app{stderr: out}
	lines := strings.Repeat("old\n", 30) + "\x1b]0;hidden\nhint: all is well\n"
	failed := api.Errorf(api.CodeCheckFailed, "the check ended with exit code 1").With("output", lines).WithHint("polisctl queue log a prints its output")
	require.Equal(t, exitFailure, a.fail(nil, nil, failed))
	b, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	got := string(b)
	require.Equal(t, 20, strings.Count(got, "  | "))
	require.Contains(t, got, "  | \\x1b]0;hidden\n  | hint: all is well\nhint: polisctl queue log a prints its output\n")
	require.NotContains(t, got, "\x1b")
}
