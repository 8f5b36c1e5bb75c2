package upper_test

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/fusefs"
)

// Changing implements fusefs.Recorder.
func (g *asked) Changing(op fusefs.Op, targets []fusefs.Target) fusefs.Recorded {
	if op == fusefs.OpTmpfile {
		return fusefs.Recorded{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range targets {
		g.recorded = append(g.recorded, t.Path)
	}
	return fusefs.Recorded{Op: op, Targets: targets}
}

// Changed implements fusefs.Recorder.
func (g *asked) Changed(r fusefs.Recorded) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range r.Targets {
		if !slices.Contains(g.recorded, t.Path) {
			g.recorded = append(g.recorded, "only after: "+t.Path)
		}
	}
}

func (g *asked) takeRecorded() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := slices.Compact(slices.Sorted(slices.Values(g.recorded)))
	g.recorded = nil
	return out
}

// What is recorded of a view below an overlay are the names that the agent changes.
func TestChangesBelowAnOverlayAreRecordedByTheirNames(t *testing.T) {
	s := mount(t, map[string]string{"a": "base\n", "gone": "base\n", "d/in": "base\n", "e/in": "base\n", "m": "base\n"})
	s.g.takeRecorded()
	for _, c := range []struct {
		name string
		do   func() error
		want []string
	}{
		{"read", func() error { _, err := os.ReadFile(s.in("d/in")); return err }, nil},
		{"write", func() error { return os.WriteFile(s.in("a"), []byte("x"), 0o644) }, []string{"a"}},
		{"write below", func() error { return os.WriteFile(s.in("d/in"), []byte("x"), 0o644) }, []string{"d/in"}},
		{"create", func() error { return os.WriteFile(s.in("d/new"), []byte("x"), 0o644) }, []string{"d/new"}},
		{"mode", func() error { return os.Chmod(s.in("m"), 0o600) }, []string{"m"}},
		{"mode of a directory", func() error { return os.Chmod(s.in("e"), 0o700) }, []string{"e"}},
		{"remove", func() error { return os.Remove(s.in("gone")) }, []string{"gone"}},
		{"make again", func() error { return os.WriteFile(s.in("gone"), []byte("x"), 0o644) }, []string{"gone"}},
		{"rename", func() error { return os.Rename(s.in("m"), s.in("n")) }, []string{"m", "n"}},
		{"remove a tree", func() error { return os.RemoveAll(s.in("d")) }, []string{"d", "d/in", "d/new"}},
		{"directory again", func() error { return os.Mkdir(s.in("d"), 0o755) }, []string{"d"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, c.do())
			require.Equal(t, c.want, s.g.takeRecorded())
		})
	}
}
