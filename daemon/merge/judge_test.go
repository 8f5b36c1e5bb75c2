package merge

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/merge/gate"
	"polis/fusefs/policy"
)

func rules(t *testing.T, r policy.Rules, protected ...string) gate.Rules {
	t.Helper()
	set, err := policy.Compile(r)
	require.NoError(t, err)
	p, err := gate.CompileProtected(protected)
	require.NoError(t, err)
	return gate.Rules{Policy: set, Protected: p}
}

// Plumbing records any path without opening it; none is merged that the
// agent's rules do not let it write, however often its branch is merged.
func TestChangesOutsideTheRulesAreNotMerged(t *testing.T) {
	f := setup(t)
	tree := f.work(t, "mallory", "mine.txt", "x\n")
	blob := as(t, nobody, tree.Path, "rev-parse", "HEAD:mine.txt")
	before := as(t, nobody, tree.Path, "rev-parse", "main")
	as(t, nobody, tree.Path, "update-index", "--add", "--cacheinfo", "100644,"+blob+",secrets/k", "--chmod=+x", "file")
	as(t, nobody, tree.Path, "rm", "-q", "-f", "--cached", "file")
	as(t, nobody, tree.Path, "commit", "-qm", "plumbing")
	req := Request{Agent: "mallory", Branch: "agent/mallory", Rules: rules(t, policy.Rules{Read: []string{"**"}, Write: []string{"*.txt"}})}
	for range 2 {
		for _, accept := range []bool{false, true} {
			req.AcceptProtected = accept
			_, err := f.Merge(t.Context(), req)
			require.Equal(t, api.CodeUndeclaredWrite, api.CodeOf(err), "%v", err)
			require.Equal(t, []string{"file", "secrets/k"}, api.AsError(err).Details["paths"])
			require.Contains(t, err.Error(), `"secrets/k"`)
		}
		_, err := f.DryRun(t.Context(), req)
		require.Equal(t, api.CodeUndeclaredWrite, api.CodeOf(err), "%v", err)
	}
	s, err := f.Stack(t.Context(), []Request{req})
	require.NoError(t, err)
	require.Equal(t, api.CodeUndeclaredWrite, api.CodeOf(s.Items[0].Err))
	require.Equal(t, before, as(t, nobody, tree.Path, "rev-parse", "main"))
	// What it may write does, when the rest is gone from the branch.
	as(t, nobody, tree.Path, "rm", "-q", "--cached", "secrets/k")
	as(t, nobody, tree.Path, "checkout", "-q", "main", "--", "file")
	as(t, nobody, tree.Path, "commit", "-qm", "as it may")
	res, err := f.Merge(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, []string{"mine.txt"}, res.Paths)
}

// A branch that takes the target in as its own work (merge -s ours) takes
// others' changes back: those are changes of its own.
func TestAMergeThatUndoesOthersWorkIsJudgedAsItsOwn(t *testing.T) {
	f := setup(t)
	f.work(t, "bob", "bobs", "bob\n")
	tree := f.work(t, "mallory", "mine.txt", "x\n")
	_, err := f.merge(t, "bob")
	require.NoError(t, err)
	as(t, nobody, tree.Path, "merge", "-q", "-s", "ours", "-m", "ours", "main")
	req := Request{Agent: "mallory", Branch: "agent/mallory", Rules: rules(t, policy.Rules{Read: []string{"**"}, Write: []string{"mine.txt"}})}
	_, err = f.Merge(t.Context(), req)
	require.Equal(t, api.CodeUndeclaredWrite, api.CodeOf(err), "%v", err)
	require.Equal(t, []string{"bobs"}, api.AsError(err).Details["paths"])
}

func TestProtectedPathsNeedAPerson(t *testing.T) {
	f := setup(t)
	tree := f.work(t, "alice", ".envrc", "export X=1\n")
	as(t, nobody, tree.Path, "update-index", "--add", "--cacheinfo", "160000,"+as(t, nobody, tree.Path, "rev-parse", "main")+",sub")
	as(t, 0, f.project, "clone", "-q", "--bare", ".", ".git/modules/sub")
	out := blobOf(t, tree.Path, "/etc/passwd")
	as(t, nobody, tree.Path, "update-index", "--add", "--cacheinfo", "120000,"+out+",link")
	as(t, nobody, tree.Path, "commit", "-qm", "more")
	req := Request{Agent: "alice", Branch: "agent/alice", Rules: rules(t, policy.Rules{}, ".envrc")}
	_, err := f.Merge(t.Context(), req)
	require.Equal(t, api.CodeProtectedPath, api.CodeOf(err), "%v", err)
	require.Equal(t, []string{".envrc", "link", "sub"}, api.AsError(err).Details["paths"])
	dry, err := f.DryRun(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, dry.Protected, 3)
	req.AcceptProtected = true
	res, err := f.Merge(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, dry.Tree, res.Tree)
}

// blobOf stores a text and returns its object id.
func blobOf(t *testing.T, dir, text string) string {
	t.Helper()
	return as(t, nobody, dir, "-c", "alias.h=!printf %s '"+strings.ReplaceAll(text, "'", "")+"' | git hash-object -w --stdin", "h")
}
