package git

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseStep(t *testing.T) {
	for line, want := range map[string]Step{
		"Receiving objects:  45% (450/1000), 1.20 MiB | 600.00 KiB/s": {"Receiving objects", 45, "(450/1000), 1.20 MiB | 600.00 KiB/s"},
		"Resolving deltas: 100% (12/12), done.":                       {"Resolving deltas", 100, "(12/12), done."},
		"remote: Counting objects:   1% (1/100)        ":              {"Counting objects", 1, "(1/100)"},
		"remote: Enumerating objects: 5, done.":                       {"Enumerating objects", -1, "5, done."},
		"Updating files:   9% (90/1000)":                              {"Updating files", 9, "(90/1000)"},
	} {
		got, ok := parseStep(line)
		require.True(t, ok, line)
		require.Equal(t, want, got)
	}
	for _, line := range []string{"", "fatal: 5 is bad", "fatal: unable to access 'http://x/': 403", "error: 7% (x", "warning: x", "Receiving objects:", ": 5", "a\x1b[2J: 5% (1/2)", "x: 101% (1/2)"} {
		_, ok := parseStep(line)
		require.False(t, ok, "%q", line)
	}
}

func FuzzStepper(f *testing.F) {
	f.Add("Receiving objects:  45% (450/1000)\rReceiving objects: 100% (1000/1000), done.\nfatal: no\n", 7)
	f.Fuzz(func(t *testing.T, text string, chunk int) {
		if chunk <= 0 || chunk > 1<<16 {
			chunk = 1
		}
		feed := func(chunk int) (string, []Step) {
			var rest bytes.Buffer
			var steps []Step
			s := &stepper{say: func(s Step) { steps = append(steps, s) }, rest: &rest}
			for b := []byte(text); len(b) > 0; {
				n := min(chunk, len(b))
				_, err := s.Write(b[:n])
				require.NoError(t, err)
				b = b[n:]
			}
			require.NoError(t, s.end())
			return rest.String(), steps
		}
		rest, steps := feed(chunk)
		require.LessOrEqual(t, len(rest), 2*len(text)+1)
		for _, s := range steps {
			require.NotContains(t, s.String(), "\x1b")
			require.LessOrEqual(t, s.Percent, 100)
		}
	})
}

// A clone reports its progress, and an error does not contain it.
func TestProgressOfARealClone(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	_, err := self().Run(t.Context(), Cmd{Args: []string{"init", "-q", "-b", "main", src}, Write: []string{dir}})
	require.NoError(t, err)
	for i := range 200 {
		require.NoError(t, os.WriteFile(filepath.Join(src, strings.Repeat("f", i+1)), []byte(strings.Repeat("x", i)), 0o644))
	}
	for _, args := range [][]string{{"add", "-A"}, {"commit", "-qm", "x"}} {
		_, err = self().Run(t.Context(), Cmd{Args: args, Dir: src, Write: []string{src}})
		require.NoError(t, err)
	}
	var steps []Step
	global := filepath.Join(dir, "gitconfig")
	require.NoError(t, os.WriteFile(global, []byte("[safe]\n\tdirectory = *\n"), 0o644))
	_, err = self().Run(t.Context(), Cmd{Args: []string{"clone", "--progress", "--no-local", "--", "file://" + src, filepath.Join(dir, "dst")}, Global: global, Remote: true,
		Progress: func(s Step) { steps = append(steps, s) }})
	require.NoError(t, err)
	var whats []string
	for _, s := range steps {
		whats = append(whats, s.What)
	}
	require.Contains(t, whats, "Receiving objects")
	require.Equal(t, 100, steps[len(steps)-1].Percent)
	_, err = self().Run(t.Context(), Cmd{Args: []string{"clone", "--progress", "--", "file://" + filepath.Join(dir, "none"), filepath.Join(dir, "x")}, Remote: true, Progress: func(Step) {}})
	require.ErrorContains(t, err, "Could not read from remote repository")
}

func TestStepperIsBounded(t *testing.T) {
	s := &stepper{say: func(Step) {}, rest: io.Discard}
	for range 100 {
		_, err := s.Write(bytes.Repeat([]byte("x"), 1000))
		require.NoError(t, err)
		require.LessOrEqual(t, len(s.line), 2*maxStep+1000)
	}
}
