package timeline

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/fusefs/changed"
)

// ignoresThem is what git answers with "*.env", "build/", "deps/" and "*.db" in .gitignore.
func ignoresThem(p string) bool {
	top, _, _ := strings.Cut(p, "/")
	return top == "build" || top == "deps" || strings.HasSuffix(p, ".env") || strings.HasSuffix(p, ".db") || inGit(p)
}

func withHeld(t *testing.T, patterns ...string) *world {
	w := start(t)
	w.h.set, w.h.ignores, w.h.held = changed.New(), ignoresThem, patterns
	return w
}

func (w *world) rewind(id string, dry bool) []string {
	res, err := w.l.Restore(w.Context(), id, api.SnapshotRestoreRequest{DryRun: dry})
	require.NoError(w, err)
	return res.Paths
}

func TestCheckpointsHaveTheIgnoredFilesThatAreConfigured(t *testing.T) {
	for name, whole := range map[string]bool{"only what changed is read": false, "the whole tree is read": true} {
		t.Run(name, func(t *testing.T) {
			w := withHeld(t, "*.env", "build/reports/**")
			held := []string{".env", "sub/x.env", "build/reports/a", "build/reports/deep/b"}
			left := []string{"build/large", "deps/y.env", "deps/z", "sub/k.db", "build/reports/repo/.git/config"}
			for _, p := range append(append([]string{"plain"}, held...), left...) {
				w.put(p, "old")
			}
			s, _ := w.checkpoint()
			require.Equal(t, []string{"*.env", "build/reports/**"}, s.Ignored)
			for _, p := range append(append([]string{"plain"}, held...), left...) {
				w.put(p, "new")
			}
			w.put("build/reports/made", "since")
			w.put("build/made", "since")
			w.put("other.env", "since")
			if whole {
				w.h.set = changed.New()
			}
			w.rewind(s.ID, false)
			for _, p := range append([]string{"plain"}, held...) {
				require.Equal(t, "old", w.read(p), p)
			}
			for _, p := range left {
				require.Equal(t, "new", w.read(p), p)
			}
			require.Equal(t, "-", w.read("build/reports/made"))
			require.Equal(t, "-", w.read("other.env"))
			require.Equal(t, "since", w.read("build/made"))
			require.Equal(t, []string{"plain"}, w.h.leases, "what git ignores has no leases")
		})
	}
}

// TestARewindLeavesAloneWhatWasNotConfiguredThen: a checkpoint without a file that git ignores does not say that it was
// not there.
func TestARewindLeavesAloneWhatWasNotConfiguredThen(t *testing.T) {
	w := withHeld(t)
	w.put("plain", "old")
	w.put(".env", "secret")
	w.put("build/reports/a", "kept")
	before, _ := w.checkpoint()
	require.Empty(t, before.Ignored)

	w.h.held = []string{".env", "build/reports/**"}
	w.put("plain", "new")
	after, _ := w.checkpoint()
	require.Contains(t, after.Whole, "rules")
	w.rewind(before.ID, false)
	require.Equal(t, "old", w.read("plain"))
	require.Equal(t, "secret", w.read(".env"))
	require.Equal(t, "kept", w.read("build/reports/a"))

	// The other way round: what a checkpoint has is brought back, also if the patterns are gone.
	w.h.held = nil
	w.put(".env", "other")
	w.rewind(after.ID, false)
	require.Equal(t, "new", w.read("plain"))
	require.Equal(t, "secret", w.read(".env"))
}

// Feature: multi-agent-workspaces, Property: a rewind brings back the ignored files that are held, and touches no other
func TestARewindTouchesNoIgnoredFileThatIsNotHeld(t *testing.T) {
	pool := []string{"a", "d/b", "d/c.env", ".env", "x.db", "d/y.db", "build/a", "build/r/b", "build/r/s/c", "build/q.env", "deps/e.env", "deps/f/g"}
	patterns := []string{"*.env", ".env", "*.db", "build/r/**", "build/", "build/a", "deps/f/**", "d/y.db"}
	rapid.Check(t, func(r *rapid.T) {
		w := withHeld(t, rapid.SliceOfNDistinct(rapid.SampledFrom(patterns), 0, 4, rapid.ID).Draw(r, "held")...)
		edit := func(label string) {
			for i := range rapid.IntRange(1, 8).Draw(r, label) {
				p := rapid.SampledFrom(pool).Draw(r, "path")
				if rapid.Bool().Draw(r, "remove") {
					w.h.set.Add(p, false)
					require.NoError(r, os.RemoveAll(filepath.Join(w.h.dir, p)))
				} else {
					w.put(p, fmt.Sprint(label, i))
				}
			}
		}
		edit("first")
		if rapid.Bool().Draw(r, "one before") {
			w.checkpoint()
			edit("second")
		}
		s, _, err := w.l.Checkpoint(w.Context(), "a", BeforeTask(api.Task{ID: "a.1"}))
		require.NoError(r, err)
		then := w.files()
		edit("third")
		now := w.files()
		w.rewind(s.ID, false)
		tree := Tree{Ignored: func(p string, _ bool) bool { return ignoresThem(p) }}
		tree.Held, err = NewHeld(w.h.held)
		require.NoError(r, err)
		got := w.files()
		for _, p := range pool {
			want := then[p]
			if tree.leaves(p, false) {
				want = now[p]
			}
			require.Equal(r, want, got[p], p)
		}
		for _, p := range w.rewind(s.ID, true) { // a directory remains in which a file is that is not held
			require.DirExists(r, filepath.Join(w.h.dir, p))
		}
	})
}

// files returns the contents of all files.
func (w *world) files() map[string]string {
	out := map[string]string{}
	require.NoError(w, filepath.WalkDir(w.h.dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			name := strings.TrimPrefix(p, w.h.dir+"/")
			out[name] = w.read(name)
		}
		return err
	}))
	return out
}
