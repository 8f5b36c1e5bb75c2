package gitgroup

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/cgroup"
	"polis/daemon/git"
	"polis/daemon/host/cage"
	"polis/internal/need"
)

// host returns the machine's control groups, and a name of the test's own there.
func host(t *testing.T) (*cgroup.Host, string) {
	need.Root(t)
	h, err := cgroup.Detect()
	require.NoError(t, err)
	base := fmt.Sprintf("/polis-gitgroup-%d-%d", os.Getpid(), time.Now().UnixNano())
	t.Cleanup(func() {
		g, err := h.Group(base)
		require.NoError(t, err)
		require.NoError(t, Clear(context.Background(), g))
	})
	return h, base
}

func groups(t *testing.T, limit int64) *Groups {
	h, base := host(t)
	g := &Groups{Host: h, Path: func(agent string) string { return base + "/" + agent + "/git" }, Limit: func() int64 { return limit }, Log: slog.New(slog.DiscardHandler)}
	t.Cleanup(func() { require.NoError(t, g.Close(context.Background())) })
	return g
}

func repo(t *testing.T) git.Repo {
	dir := filepath.Join(t.TempDir(), "r.git")
	run := &git.Runner{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	_, err := run.Run(t.Context(), git.Cmd{Args: []string{"init", "-q", "--bare", dir}, Write: []string{filepath.Dir(dir)}})
	require.NoError(t, err)
	return git.Repo{Runner: run, Dir: dir}
}

// edited makes two commits that change a file of many lines in different places.
func edited(t *testing.T, r git.Repo, lines int) {
	var in bytes.Buffer
	text := bytes.Repeat([]byte("a\nb\n"), lines/2)
	for i, at := range []int{-1, lines / 2, lines} {
		content := bytes.Clone(text)
		if at >= 0 {
			content = append(content[:at:at], append([]byte("edited\n"), content[at:]...)...)
		}
		fmt.Fprintf(&in, "commit refs/heads/c%d\nmark :%d\ncommitter a <a@b> 0 +0000\ndata 0\n", i, i+1)
		if i > 0 {
			fmt.Fprint(&in, "from :1\n")
		}
		fmt.Fprintf(&in, "M 100644 inline file\ndata %d\n%s\n", len(content), content)
	}
	_, err := r.Do(t.Context(), git.Cmd{Args: []string{"fast-import", "--quiet", "--force"}, Stdin: &in})
	require.NoError(t, err)
}

// A merge that needs more than the agent's group has is ended by the kernel, which
// ends nothing else, and the error says by which limit.
func TestAMergeOfHugeFilesEndsWithItsAgentsLimit(t *testing.T) {
	g, r := groups(t, 64<<20), repo(t)
	edited(t, r, 1_000_000)
	// The limit of the process is not what ends it.
	merge := git.Cmd{Args: []string{"merge-tree", "--write-tree", "refs/heads/c1", "refs/heads/c2"}, Limits: &cage.Limits{}}
	mine := git.Charged(t.Context(), g.Account("mine"))
	_, err := r.Do(mine, merge)
	require.ErrorContains(t, err, "git merge-tree: out of memory: the git commands of agent mine may use 64 MB of memory together (limits.git_memory_mb)")
	_, charged := git.ExitCode(err)
	require.False(t, charged, "a git that was killed has no exit code")

	_, err = r.Line(mine, "rev-parse", "refs/heads/c1")
	require.NoError(t, err, "the next command of the agent")
	_, err = r.Do(t.Context(), merge)
	require.NoError(t, err, "the same merge, charged to nobody")
}

// A group is removed when no command has run for a while, and the next one makes it again.
func TestAGroupThatNobodyUsesGoes(t *testing.T) {
	g, r := groups(t, 64<<20), repo(t)
	g.Idle = time.Millisecond
	c, err := g.Host.Group(g.Path("a"))
	require.NoError(t, err)
	for range 3 {
		_, err := r.Do(git.Charged(t.Context(), g.Account("a")), git.Cmd{Args: []string{"for-each-ref"}})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return !c.Exists() }, 20*time.Second, time.Millisecond)
	}
}

// The group of an agent that is removed goes with it, or with its last command.
func TestAGroupGoesWithItsAgent(t *testing.T) {
	g, r := groups(t, 64<<20), repo(t)
	c, err := g.Host.Group(g.Path("a"))
	require.NoError(t, err)
	_, err = r.Do(git.Charged(t.Context(), g.Account("a")), git.Cmd{Args: []string{"for-each-ref"}})
	require.NoError(t, err)
	require.True(t, c.Exists())
	g.Drop("a")
	require.False(t, c.Exists())
	g.Drop("a")
	_, err = r.Do(git.Charged(t.Context(), g.Account("a")), git.Cmd{Args: []string{"for-each-ref"}})
	require.NoError(t, err)
	require.False(t, c.Exists(), "a command that comes late")
	g.Begin("a")

	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	require.NoError(t, cmd.Start())
	leave, err := g.Account("a").Enter(cmd.Process.Pid)
	require.NoError(t, err)
	g.Drop("a")
	require.True(t, c.Exists())
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Empty(t, leave())
	require.False(t, c.Exists())
}

// A group is not removed while a command of it runs, however long that is.
func TestAGroupStaysWhileItIsUsed(t *testing.T) {
	g := groups(t, 64<<20)
	g.Idle = time.Millisecond
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	require.NoError(t, cmd.Start())
	long, err := g.Account("a").Enter(cmd.Process.Pid)
	require.NoError(t, err)
	c, err := g.Host.Group(g.Path("a"))
	require.NoError(t, err)
	short, err := g.Account("a").Enter(cmd.Process.Pid)
	require.NoError(t, err)
	require.Empty(t, short())
	pids, err := c.Procs()
	require.NoError(t, err)
	require.Equal(t, []int{cmd.Process.Pid}, pids)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.Empty(t, long())
	require.Eventually(t, func() bool { return !c.Exists() }, 20*time.Second, time.Millisecond)
}

func TestCloseRemovesEveryGroup(t *testing.T) {
	g, r := groups(t, 64<<20), repo(t)
	for _, agent := range []string{"a", "b"} {
		_, err := r.Do(git.Charged(t.Context(), g.Account(agent)), git.Cmd{Args: []string{"for-each-ref"}})
		require.NoError(t, err)
	}
	names, err := g.Host.List(path.Dir(path.Dir(g.Path("a"))))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, names)
	require.NoError(t, g.Close(t.Context()))
	names, err = g.Host.List(path.Dir(path.Dir(g.Path("a"))))
	require.NoError(t, err)
	require.Empty(t, names)
	// A command that comes late runs, and makes no group.
	_, err = r.Do(git.Charged(t.Context(), g.Account("a")), git.Cmd{Args: []string{"for-each-ref"}})
	require.NoError(t, err)
	names, err = g.Host.List(path.Dir(path.Dir(g.Path("a"))))
	require.NoError(t, err)
	require.Empty(t, names)
}

// Where no group can be made, git runs, and a warning is logged once.
func TestWithoutAGroupGitRuns(t *testing.T) {
	h, _ := host(t)
	var log strings.Builder
	g := &Groups{Host: h, Path: func(string) string { return "/" }, Limit: func() int64 { return 0 }, Log: slog.New(slog.NewTextHandler(&log, nil))}
	r := repo(t)
	for range 3 {
		_, err := r.Do(git.Charged(t.Context(), g.Account("a")), git.Cmd{Args: []string{"for-each-ref"}})
		require.NoError(t, err)
	}
	require.Equal(t, 1, strings.Count(log.String(), "git is not charged to agents"), log.String())
}

// The memory of a group does not depend on who charges: without an account, nobody.
func TestNobodyIsCharged(t *testing.T) {
	var none *Groups
	require.Nil(t, none.Account("a"))
	require.NoError(t, none.Close(t.Context()))
	require.Equal(t, t.Context(), git.Charged(t.Context(), none.Account("a")))
}
