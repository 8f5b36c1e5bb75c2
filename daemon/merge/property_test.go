package merge

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/git"
)

// files are a commit's, all of one line; a name that is not there has no file.
type files map[string]string

// threeWay is what git makes of files of one line each; ok is false for a conflict.
func threeWay(base, ours, theirs files) (files, bool) {
	out := files{}
	names := maps.Clone(base)
	maps.Copy(names, ours)
	maps.Copy(names, theirs)
	for name := range names {
		b, o, t := base[name], ours[name], theirs[name]
		switch {
		case o == b, o == t:
			o = t
		case t != b:
			return nil, false
		}
		if o != "" {
			out[name] = o
		}
	}
	return out, true
}

type commits struct{ bytes.Buffer }

// add makes a branch one commit ahead of another, for git-fast-import(1).
func (c *commits) add(branch, from string, all files) {
	fmt.Fprintf(c, "commit refs/heads/%s\ncommitter u <u@example.org> 1700000000 +0000\ndata %d\n%s\nfrom %s\ndeleteall\n", branch, len(branch), branch, from)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(c, "M 100644 inline %s\ndata %d\n%s\n", name, len(all[name]), all[name])
	}
}

func (f fixture) load(t require.TestingT, c *commits) {
	cmd := exec.Command("git", "fast-import", "--quiet", "--force")
	cmd.Dir, cmd.Stdin, cmd.Env = f.Workspace.Bare().Dir, c, []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

// holders counts who holds a ref at the same time.
type holders struct {
	mu        sync.Mutex
	now, most int
}

func (h *holders) AcquireRef(context.Context, string) (func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now++
	h.most = max(h.most, h.now)
	return func() { h.mu.Lock(); h.now--; h.mu.Unlock() }, nil
}

// TestAnyBranchesMergedAtOnce: merges to one branch come one after the other,
// each a merge of its own; a conflict moves nothing; what is in the target is
// what landed and no more; and any of them is reverted alone.
//
// Feature: multi-agent-workspaces, Property 11: Git Mutex Granular Locking
func TestAnyBranchesMergedAtOnce(t *testing.T) {
	f := setup(t)
	bare := f.Workspace.Bare()
	root, err := bare.Ref(t.Context(), git.Branch("main"))
	require.NoError(t, err)
	base := files{"file": "one\n", "a": "a of all\n", "b": "b of all\n", "d/c": "c of all\n", "keep": "all keep this\n"}
	var c commits
	c.add("start", root, base)
	f.load(t, &c)
	start, err := bare.Ref(t.Context(), git.Branch("start"))
	require.NoError(t, err)
	names := []string{"a", "b", "d/c", "d/new", "file", "other"}
	rapid.Check(t, func(rt *rapid.T) {
		ctx := t.Context()
		locks := &holders{}
		f.Locks = locks
		n := rapid.IntRange(1, 3).Draw(rt, "agents")
		var in commits
		fmt.Fprintf(&in, "reset refs/heads/main\nfrom %s\n\n", start)
		tips := make([]files, n)
		for i := range n {
			tips[i] = maps.Clone(base)
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 2, rapid.ID[string]).Draw(rt, "changes") {
				switch rapid.SampledFrom([]string{"own", "own", "same", "remove"}).Draw(rt, "how") {
				case "own":
					tips[i][name] = fmt.Sprintf("%s by %d\n", name, i)
				case "same":
					tips[i][name] = name + " by several\n"
				case "remove":
					delete(tips[i], name)
				}
			}
			in.add(fmt.Sprintf("agent/r%d", i), start, tips[i])
		}
		f.load(rt, &in)
		results, errs := make([]Result, n), make([]error, n)
		var wait sync.WaitGroup
		for i := range n {
			wait.Go(func() {
				results[i], errs[i] = f.Merge(ctx, Request{Branch: fmt.Sprintf("agent/r%d", i)})
			})
		}
		wait.Wait()
		require.LessOrEqual(rt, locks.most, 1, "two at once")
		require.Zero(rt, locks.now)

		// In the order git has them.
		line, err := bare.Line(ctx, "rev-list", "--first-parent", "--reverse", "main", "^"+start)
		require.NoError(rt, err)
		have, onto := base, start
		landed := map[int]bool{}
		var last int
		for commit := range strings.FieldsSeq(line) {
			i := slices.IndexFunc(results, func(r Result) bool { return r.Commit == commit })
			require.GreaterOrEqual(rt, i, 0, "an unknown commit")
			require.Equal(rt, onto, results[i].Onto)
			merged, ok := threeWay(base, have, tips[i])
			require.True(rt, ok)
			have, onto, last, landed[i] = merged, commit, i, true
		}
		for i, err := range errs {
			require.Equal(rt, err == nil, landed[i], err)
			if err != nil {
				require.Equal(rt, api.CodeMergeConflict, api.CodeOf(err))
				_, ok := threeWay(base, have, tips[i])
				require.False(rt, ok, "%d does not conflict", i)
			}
		}
		f.same(rt, have)
		require.NotEmpty(rt, landed, "one branch is first, and has nothing to conflict with")

		// The last one back: the target is as it was before.
		before, err := bare.Line(ctx, "rev-parse", results[last].Onto+"^{tree}")
		require.NoError(rt, err)
		back, err := f.Revert(ctx, results[last].Commit)
		if api.CodeOf(err) == api.CodeNothingToMerge { // it brought what was there
			require.Equal(rt, before, results[last].Tree)
			return
		}
		require.NoError(rt, err)
		require.Zero(rt, back.Later)
		require.Equal(rt, before, back.Tree)
	})
}

// same compares the target's files.
func (f fixture) same(t *rapid.T, want files) {
	out, err := f.Workspace.Bare().Run(context.Background(), "grep", "-h", "-e", "", "main", "--")
	require.NoError(t, err)
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	var lines []string
	for _, text := range want {
		lines = append(lines, strings.TrimSpace(text))
	}
	require.ElementsMatch(t, lines, got)
}
