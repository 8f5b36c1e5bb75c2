package worktree

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatHappensToARefOfTheProject(t *testing.T) {
	const r = "refs/heads/x"
	of := func(v string) map[string]string {
		if v == "" {
			return map[string]string{}
		}
		return map[string]string{r: v}
	}
	for name, c := range map[string]struct {
		project, shared, known string
		held                   bool
		set                    *string // nil: nothing
		later                  bool    // only forward
		record, kept           string
	}{
		"a new one":                       {project: "a", set: str("a")},
		"nothing changed":                 {project: "a", shared: "a", known: "a", record: "a"},
		"made before there was a record":  {project: "a", shared: "a", record: "a"},
		"it moved":                        {project: "b", shared: "a", known: "a", set: str("b")},
		"it was deleted":                  {shared: "a", known: "a", set: str("")},
		"both are gone":                   {known: "a"},
		"polis dropped it with an agent":  {project: "a", known: "a", set: str("a")},
		"others moved it":                 {project: "a", shared: "b", known: "a", record: "a"},
		"others moved the deleted one":    {shared: "b", known: "a"},
		"both moved it":                   {project: "b", shared: "c", known: "a", set: str("b"), later: true, record: "a"},
		"another of that name":            {project: "a", shared: "b", set: str("a"), later: true},
		"an agent works on it":            {project: "a", shared: "b", known: "a", held: true, record: "a"},
		"it moved below an agent":         {project: "b", shared: "a", known: "a", held: true, record: "a", kept: "held"},
		"it was deleted below an agent":   {shared: "a", known: "a", held: true},
		"an agent has made one before":    {project: "a", shared: "b", held: true, kept: "held"},
		"an agent is about to make one":   {project: "a", held: true, kept: "held"},
		"an agent's is the same":          {project: "a", shared: "a", held: true, record: "a"},
		"an agent's, unknown to the user": {shared: "a", held: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := refsOf{project: of(c.project), shared: of(c.shared), known: of(c.known), holder: func(string) string {
				if c.held {
					return "held"
				}
				return ""
			}}.plan()
			if c.set == nil {
				require.Empty(t, p.set)
			} else {
				require.Equal(t, map[string]string{r: *c.set}, p.set)
				require.Equal(t, c.shared, p.from[r])
			}
			require.Equal(t, c.later, len(p.later) == 1)
			require.Equal(t, of(c.record), p.known)
			require.Equal(t, of(c.kept), p.kept)
		})
	}
}

func str(s string) *string { return &s }

// git has no refs a and a/b: the one that is there stays.
func TestARefBesideAnotherIsNotBrought(t *testing.T) {
	free := func(string) string { return "" }
	p := refsOf{project: map[string]string{"refs/heads/a/b": "1", "refs/heads/c": "1"}, shared: map[string]string{"refs/heads/a": "2", "refs/heads/c/d": "2"}, holder: free}.plan()
	require.Empty(t, p.set)
	require.Len(t, p.kept, 2)
	p = refsOf{project: map[string]string{"refs/heads/a/b": "1"}, shared: map[string]string{"refs/heads/a": "2"}, known: map[string]string{"refs/heads/a": "2"}, holder: free}.plan()
	require.Equal(t, map[string]string{"refs/heads/a/b": "1", "refs/heads/a": ""}, p.set, "it was deleted in the project")
}

func TestWhereABranchOfThatNameBegins(t *testing.T) {
	one, two := "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	b := Brought{project: map[string]string{"refs/heads/hotfix": one, "refs/remotes/origin/feature": one, "refs/remotes/origin/HEAD": "ref: refs/remotes/origin/feature",
		"refs/remotes/origin/both": one, "refs/remotes/fork/both": two, "refs/remotes/origin/agent/ann": one}, shared: map[string]string{"refs/heads/older": one}, Kept: map[string]string{"refs/heads/bad": "held"}}
	for branch, want := range map[string]string{"hotfix": "", "older": "", "new": "", "feature": one, "agent/ann": "", "HEAD": ""} {
		got, err := b.Start(branch, "/p")
		require.NoError(t, err, branch)
		require.Equal(t, want, got, branch)
	}
	for _, branch := range []string{"bad", "both", "origin/feature"} {
		_, err := b.Start(branch, "/p")
		require.Error(t, err, branch)
	}
}

// A ref whose file is damaged is not one that was deleted: the shared repository can have the only copy.
func TestADamagedRefOfTheProjectIsNotDeleted(t *testing.T) {
	needRoot(t)
	dir := project(t)
	w := up(t, spec(t, dir))
	p, err := w.Project(t.Context())
	require.NoError(t, err)
	as(t, 0, dir, "branch", "other/one")
	as(t, 0, dir, "tag", "-a", "-m", "x", "v2")
	bring := func() (Brought, bool) {
		t.Helper()
		got, err := w.BringRefs(t.Context(), p, nil)
		require.NoError(t, err)
		ids, err := w.Bare().Resolve(t.Context(), "refs/heads/other/one", "refs/tags/v2")
		require.NoError(t, err)
		require.NotEmpty(t, ids[1])
		return got, ids[0] != ""
	}
	got, there := bring()
	require.True(t, there)
	require.Equal(t, 2, got.Moved)
	got, _ = bring()
	require.Zero(t, got.Moved)

	file := filepath.Join(dir, ".git", "refs", "heads", "other", "one")
	require.NoError(t, os.Truncate(file, 0))
	for range 2 {
		got, there = bring()
		require.True(t, there)
		require.Contains(t, got.Kept["refs/heads/other/one"], "damaged")
	}
	require.NoError(t, os.Remove(file))
	got, there = bring()
	require.False(t, there)
	require.Equal(t, 1, got.Moved)
	require.Empty(t, got.Kept)
}
