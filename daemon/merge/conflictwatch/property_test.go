package conflictwatch

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/git"
)

// edit changes a tree as an agent might: lines, new files, removed and renamed
// files and directories, a file where a directory was.
func edit(t *rapid.T, files map[string]string) {
	pick := func(label string) string {
		return rapid.SampledFrom(slices.Sorted(maps.Keys(files))).Draw(t, label)
	}
	free := func(name string) bool {
		for have := range files {
			if have == name || strings.HasPrefix(have, name+"/") || strings.HasPrefix(name, have+"/") {
				return false
			}
		}
		return true
	}
	if len(files) == 0 {
		files["a"] = "again\n"
	}
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 0, 1, 2, 3, 4: // a line
		name := pick("file")
		lines := strings.SplitAfter(files[name], "\n")
		lines[rapid.IntRange(0, len(lines)-1).Draw(t, "line")] = rapid.SampledFrom([]string{"x\n", "y\n", "z\n"}).Draw(t, "text")
		files[name] = strings.Join(lines, "")
	case 5: // a new file
		if name := rapid.SampledFrom([]string{"d/new", "e/new", "new", "d"}).Draw(t, "new"); free(name) {
			files[name] = rapid.SampledFrom([]string{"n\n", "m\n"}).Draw(t, "text")
		}
	case 6: // a removed one
		delete(files, pick("removed"))
	case 7: // a renamed one
		old, name := pick("old"), rapid.SampledFrom([]string{"moved", "d/moved", "e/moved"}).Draw(t, "moved")
		if free(name) {
			files[name] = files[old]
			delete(files, old)
		}
	case 8: // a renamed directory
		for old, text := range maps.Clone(files) {
			if rest, ok := strings.CutPrefix(old, "d/"); ok && free("g/"+rest) {
				files["g/"+rest] = text
				delete(files, old)
			}
		}
	case 9: // a file in place of a directory
		for old := range maps.Clone(files) {
			if strings.HasPrefix(old, "e/") {
				delete(files, old)
			}
		}
		files["e"] = "a file now\n"
	}
}

// TestTheWatcherReportsTheConflictsOfGitMerge has random agents edit, and compares the report with git
// merge in a checkout, and with git diff of each branch.
func TestTheWatcherReportsTheConflictsOfGitMerge(t *testing.T) {
	base := map[string]string{}
	for i, name := range []string{"a", "b", "d/x", "d/y", "d/z", "e/x"} {
		for line := range 8 {
			base[name] += fmt.Sprintf("%d %d\n", i, line)
		}
	}
	s := newSite(t, base)
	require.NoError(t, os.MkdirAll(s.watcher.Scratch, 0o711))
	clone := filepath.Join(filepath.Dir(s.dir), "clone")
	require.NoError(t, os.Mkdir(clone, 0o755))
	require.NoError(t, os.Chown(clone, nobody, nobody))
	s.git(nobody, "/", nil, "clone", "-qs", s.bare, clone)
	s.git(nobody, clone, nil, "checkout", "-q", "--detach")
	start := s.git(nobody, s.bare, nil, "rev-parse", "main")
	s.watcher.Branches.Open(t.Context())
	t.Cleanup(s.watcher.Branches.Close)
	s.watcher.Branches.SetAgents([]Agent{{Name: "a1", Branch: "agent/a1"}, {Name: "a2", Branch: "agent/a2"}})
	branches := []string{"main", "agent/a1", "agent/a2"}
	rapid.Check(t, func(rt *rapid.T) {
		var in strings.Builder
		for _, b := range branches {
			files := maps.Clone(base)
			for range rapid.IntRange(0, 4).Draw(rt, "edits of "+b) {
				edit(rt, files)
			}
			if maps.Equal(files, base) && rapid.Bool().Draw(rt, "no commit") {
				fmt.Fprintf(&in, "reset refs/heads/%s\nfrom %s\n\n", b, start)
			} else {
				in.WriteString(stream(b, start, files))
			}
		}
		s.git(nobody, s.bare, []byte(in.String()), "fast-import", "--force", "--quiet", "--date-format=raw")
		now, err := s.watcher.Branches.Now(t.Context())
		require.NoError(rt, err)
		p, err := s.watcher.scan(t.Context(), now, false)
		require.NoError(rt, err)
		require.Empty(rt, p.errs)

		// Which merges conflict, and where.
		said, tips := map[string][]string{}, map[string]string{}
		for _, b := range p.branches {
			tips[b.Branch], tips["main"] = b.tip, b.onto
		}
		for _, m := range p.merges {
			require.Empty(rt, m.Error)
			require.Len(rt, m.Paths, m.Total)
			require.Len(rt, m.Paths, m.Total)
			said[strings.Join(m.Branches, " ")] = m.Paths
		}
		for _, pair := range [][2]string{{"agent/a1", "main"}, {"agent/a2", "main"}, {"agent/a1", "agent/a2"}} {
			ours, theirs := pair[0], pair[1]
			if theirs != "main" && (tips[ours] == tips["main"] || tips[theirs] == tips["main"]) {
				continue // the same commit by chance: what it conflicts with, the target does
			}
			if theirs == "main" {
				ours, theirs = theirs, ours // the order of a real merge
			}
			s.git(nobody, clone, nil, "reset", "-q", "--hard", tips[ours])
			out, err := s.tryGit(nobody, clone, nil, "merge", "-q", "--no-edit", "--no-ff", tips[theirs])
			paths, conflicts := said[pair[0]+" "+pair[1]]
			require.Equal(rt, err != nil, conflicts, "%v: the watcher reported %q, git merge %s", pair, paths, out)
			if unmerged := s.git(nobody, clone, nil, "diff", "-z", "--name-only", "--diff-filter=U"); unmerged != "" {
				want := git.SplitNUL([]byte(unmerged))
				for i, path := range want { // a file in the way of a directory is put beside it for the time being
					want[i], _, _ = strings.Cut(path, "~")
				}
				slices.Sort(want)
				require.Equal(rt, slices.Compact(want), paths, "%v", pair)
			}
		}

		// Which files two agents changed.
		var want, got []string
		theirs := git.SplitNUL([]byte(s.git(nobody, s.bare, nil, "diff", "-z", "--name-only", "--no-renames", "main...agent/a2")))
		for _, path := range git.SplitNUL([]byte(s.git(nobody, s.bare, nil, "diff", "-z", "--name-only", "--no-renames", "main...agent/a1"))) {
			if slices.Contains(theirs, path) {
				want = append(want, path)
			}
		}
		for _, x := range p.report(nil).Paths {
			require.Len(rt, x.ChangedBy, 2)
			got = append(got, x.Path)
		}
		slices.Sort(want)
		require.Equal(rt, want, got)
		require.Len(rt, want, p.shared)
	})
}
