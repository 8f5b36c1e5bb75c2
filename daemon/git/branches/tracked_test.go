package branches

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/git"
	"polis/fusefs/pathset"
)

// The set follows the target and the agents' branches, by which ever way they move.
func TestTheSetFollowsTheBranches(t *testing.T) {
	dir, err := os.MkdirTemp("", "tracked-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	bare, tree := filepath.Join(dir, "bare.git"), filepath.Join(dir, "tree")
	run := func(in string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = in
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
	}
	run(dir, "git", "init", "-q", "--bare", "-b", "main", bare)
	run(dir, "git", "init", "-q", "-b", "main", tree)
	run(tree, "git", "remote", "add", "o", bare)
	run(tree, "sh", "-c", `mkdir -p src && echo 1 > src/a && echo 1 > "$(printf 'odd\n\377')" && git add -A && git commit -qm one && git push -q o main`)

	log := slog.New(slog.DiscardHandler)
	f := &Follower{Repo: git.Repo{Runner: &git.Runner{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}, Dir: bare},
		Target: func(context.Context) (string, error) { return "main", nil }, Log: log}
	f.Open(t.Context())
	t.Cleanup(f.Close)
	charged := make(chan string, 1000)
	k := &TrackedKeeper{Repo: f.Repo, Branches: f, File: filepath.Join(dir, "set"), Log: log,
		Charge: func(ctx context.Context, agent string) context.Context { charged <- agent; return ctx }}
	k.Open(t.Context())
	t.Cleanup(k.Close)
	set := func() *pathset.Set {
		b, err := os.ReadFile(k.File)
		if err != nil {
			return &pathset.Set{}
		}
		s, err := pathset.Parse(b)
		require.NoError(t, err)
		return s
	}
	soon := func(what string, ok func(*pathset.Set) bool) {
		t.Helper()
		require.Eventually(t, func() bool { return ok(set()) }, time.Minute, 10*time.Millisecond, what)
	}
	soon("the target", func(s *pathset.Set) bool { return s.Has("src/a") && s.Below("src") && s.Has("odd\n\xff") })
	require.False(t, set().Has("build/o"))

	run(tree, "sh", "-c", "git checkout -q -b agent/x && mkdir build && echo 1 > build/o && git rm -q src/a && git add -A && git commit -qm two && git push -q o agent/x")
	require.Empty(t, charged, "the target is nobody's")
	f.SetAgents([]Agent{{Name: "x", Branch: "agent/x"}, {Name: "none", Branch: "agent/none"}})
	soon("an agent's branch", func(s *pathset.Set) bool { return s.Has("build/o") && s.Below("build") && s.Has("src/a") })
	run(tree, "sh", "-c", "echo 1 > late && git add -A && git commit -qm three && git push -q o agent/x")
	soon("what it commits later", func(s *pathset.Set) bool { return s.Has("late") })
	require.Len(t, charged, 2)
	require.Equal(t, "x", <-charged, "an agent's branch is its own")
	f.SetAgents(nil)
	soon("the agent has gone", func(s *pathset.Set) bool { return !s.Has("build/o") && !s.Has("late") && s.Has("src/a") })
	run(tree, "sh", "-c", "git push -q o agent/x:main")
	soon("it was merged", func(s *pathset.Set) bool { return s.Has("build/o") && !s.Has("src/a") })
}
