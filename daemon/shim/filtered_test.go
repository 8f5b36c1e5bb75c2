package shim

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/git"
	"polis/daemon/git/filtered"
	"polis/fusefs/policy"
)

// A ref of an agent leads to no file that the agent could not read, unless others
// have it at the same path.
func TestNoWithheldFileGetsAnotherPath(t *testing.T) {
	dir := t.TempDir()
	bare, own, index := filepath.Join(dir, "bare.git"), filepath.Join(dir, "own"), filepath.Join(dir, "index")
	require.NoError(t, os.MkdirAll(filepath.Join(own, "pack"), 0o755))
	mine := false
	run := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR=" + bare, "GIT_INDEX_FILE=" + index, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}
		if mine {
			cmd.Env = append(cmd.Env, "GIT_OBJECT_DIRECTORY="+own, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(bare, "objects"))
		}
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "git %v: %s", args, out)
		return strings.TrimSpace(string(out))
	}
	// tree makes a tree of "PATH ID" pairs, commit a commit of one.
	tree := func(files ...string) string {
		t.Helper()
		os.Remove(index)
		for _, f := range files {
			path, id, _ := strings.Cut(f, " ")
			run("", "update-index", "--add", "--cacheinfo", "100644,"+id+","+path)
		}
		return run("", "write-tree")
	}
	commit := func(tree string, parents ...string) string {
		t.Helper()
		args := []string{"commit-tree", tree, "-m", "x"}
		for _, p := range parents {
			args = append(args, "-p", p)
		}
		return run("", args...)
	}
	run("", "init", "-q", "--bare", "-b", "main", bare)
	secret, public := run("secret", "hash-object", "-w", "--stdin"), run("public", "hash-object", "-w", "--stdin")
	base := commit(tree("s/k "+secret, "p "+public))
	main := commit(tree("s/k "+secret, "s/copy "+secret, "p "+public), base)
	run("", "update-ref", "refs/heads/main", main)
	repo := git.Repo{Runner: &git.Runner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}, Dir: bare}
	k := filtered.New(repo, git.Repo{}, filepath.Join(dir, "filtered"), slog.New(slog.DiscardHandler))
	key, err := k.Ensure(t.Context(), policy.Rules{Deny: []string{"s/**"}})
	require.NoError(t, err)
	p := &packs{bare: repo, own: own, filtered: k.Objects(key)}
	judge := filtered.Judge{Shared: repo, Own: own, Filtered: k.Objects(key)}

	mine = true
	text := run("mine", "hash-object", "-w", "--stdin")
	staged := commit(tree("s/k "+secret, "p "+text, "q "+public), base)
	forged := tree("p "+secret, "s/k "+secret)
	for _, c := range []struct {
		name, rev string
		ok        bool
	}{
		{"its own files and readable ones", staged, true},
		{"a merge with what others did to withheld files", commit(tree("s/k "+secret, "s/copy "+secret, "p "+text), staged, main), true},
		{"a file of its own where files are withheld", commit(tree("s/k "+text, "p "+public), base), true},
		{"a withheld file at a path where others have it", commit(tree("s/copy "+secret, "p "+public)), true},
		{"a withheld file at a readable path", commit(forged, base), false},
		{"one below the last commit", commit(tree("p "+public), commit(forged, base)), false},
		{"a withheld file at another withheld path", commit(tree("s/other "+secret, "p "+public), base), false},
		{"a merge that moves one", commit(forged, staged, main), false},
		{"a tag of a withheld file", secret, false},
		{"a tag of a readable one", public, true},
		{"a tag of a tree with a withheld file elsewhere", forged, false},
		{"a tag of a tree as it is", run("", "rev-parse", "main^{tree}"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, revs := range [][]string{{c.rev}, {c.rev, "^" + base}} {
				err := judge.Allowed(t.Context(), revs...)
				if c.ok {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, filtered.ErrWithheld)
				}
			}
		})
	}
	tag := run("object "+secret+"\ntype blob\ntag t\ntagger a <a@b> 1 +0000\n\nx\n", "mktag")
	require.ErrorIs(t, judge.Allowed(t.Context(), tag), filtered.ErrWithheld)
	_, err = p.Publish(t.Context(), commit(forged, base))
	require.ErrorIs(t, err, filtered.ErrWithheld)
	n, err := p.Publish(t.Context(), staged)
	require.NoError(t, err)
	require.Zero(t, n, "nothing was moved")
	require.NoError(t, repo.Complete(t.Context(), staged))
	held, err := git.Holds(own, []string{text, staged})
	require.NoError(t, err)
	require.Len(t, held, 2)
}
