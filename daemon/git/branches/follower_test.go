package branches

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/git"
)

// site is a bare repository that is followed.
type site struct {
	*Follower
	t     *testing.T
	reads atomic.Int32 // git commands of the follower
	fail  atomic.Bool
}

func (s *site) Enabled(context.Context, slog.Level) bool { return true }
func (s *site) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s *site) WithGroup(string) slog.Handler            { return s }

func (s *site) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "git" {
		s.reads.Add(1)
	}
	return nil
}

func (s *site) git(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "git", append([]string{"--git-dir", s.Repo.Dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.org", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.org")
	out, err := cmd.CombinedOutput()
	require.NoError(s.t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

// commit moves a branch to a new commit of the empty tree.
func (s *site) commit(branch string) string {
	s.t.Helper()
	oid := s.git("commit-tree", "-m", branch+time.Now().String(), s.git("hash-object", "-t", "tree", "-w", "/dev/null"))
	s.git("update-ref", "refs/heads/"+branch, oid)
	return oid
}

func follow(t *testing.T) *site {
	s := &site{t: t}
	log := slog.New(s)
	s.Follower = &Follower{Log: log, Repo: git.Repo{Dir: filepath.Join(t.TempDir(), "bare.git"),
		Runner: &git.Runner{UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Log: log}},
		Target: func(context.Context) (string, error) {
			if s.fail.Load() {
				return "", errors.New("no target")
			}
			return "main", nil
		}}
	s.git("init", "-q", "--bare", "-b", "main", s.Repo.Dir)
	return s
}

func (s *site) open() <-chan struct{} {
	s.Open(s.t.Context())
	s.t.Cleanup(s.Close)
	return s.Moved()
}

// until waits for news after which ok holds.
func (s *site) until(moved <-chan struct{}, ok func(Tips, error) bool) Tips {
	s.t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case <-moved:
		case <-late:
			s.t.Fatal("no such news of the branches")
		}
		if tips, err := s.Last(s.t.Context()); ok(tips, err) {
			return tips
		}
	}
}

func TestEveryFollowerOfTheBranchesSharesOneReading(t *testing.T) {
	s := follow(t)
	first := s.commit("main")
	moved := s.open()
	other := s.Moved()
	tips := s.until(moved, func(_ Tips, err error) bool { return err == nil })
	require.Equal(t, Tips{Target: "main", Onto: first, Of: map[string]string{}}, tips)

	x := s.commit("agent/x")
	s.SetAgents([]Agent{{"y", "agent/y"}, {"x", "agent/x"}})
	tips = s.until(moved, func(tips Tips, _ error) bool { return len(tips.Agents) == 2 })
	require.Equal(t, map[string]string{"x": x}, tips.Of, "the other has no branch yet")
	require.Equal(t, "x", tips.Agents[0].Name)

	y := s.commit("agent/y")
	s.until(moved, func(tips Tips, _ error) bool { return tips.Of["y"] == y })
	s.until(other, func(tips Tips, _ error) bool { return tips.Of["y"] == y })

	s.reads.Store(0)
	next := s.commit("agent/y")
	s.until(moved, func(tips Tips, _ error) bool { return tips.Of["y"] == next })
	s.until(other, func(tips Tips, _ error) bool { return tips.Of["y"] == next })
	for range 10 {
		_, err := s.Last(t.Context())
		require.NoError(t, err)
	}
	// The kernel may report one move twice.
	require.LessOrEqual(t, s.reads.Load(), int32(2))
}

func TestNowReadsWhatNobodyHasReportedYet(t *testing.T) {
	s := follow(t)
	s.commit("main")
	s.SetAgents([]Agent{{"x", "agent/x"}})
	moved := s.open()
	for range 5 {
		oid := s.commit("agent/x")
		tips, err := s.Now(t.Context())
		require.NoError(t, err)
		require.Equal(t, oid, tips.Of["x"])
		s.until(moved, func(tips Tips, _ error) bool { return tips.Of["x"] == oid })
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Now(ended)
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Last(t.Context())
	require.NoError(t, err, "a caller that has gone says nothing of the branches")
}

func TestBranchesThatCannotBeReadAreAnErrorUntilTheyCan(t *testing.T) {
	s := follow(t)
	moved := s.open()
	s.until(moved, func(_ Tips, err error) bool { return api.CodeOf(err) == api.CodeRepoCorrupt })
	oid := s.commit("main")
	s.until(moved, func(tips Tips, err error) bool { return err == nil && tips.Onto == oid })
	s.fail.Store(true)
	s.commit("main")
	s.until(moved, func(_ Tips, err error) bool { return err != nil })
	s.fail.Store(false)
	oid = s.commit("main")
	s.until(moved, func(tips Tips, err error) bool { return err == nil && tips.Onto == oid })
}
