package conflictwatch

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/branches"
	"polis/daemon/git/worktree"
	"polis/internal/need"
)

const (
	nobody = 65534
	soon   = 3 * time.Minute // soon bounds a wait; it is no assertion on speed
)

func needRoot(t testing.TB) {
	t.Helper()
	need.Root(t)
}

// site is a workspace whose branches the test moves as agents' git would.
type site struct {
	t       testing.TB
	dir     string
	bare    string
	watcher *Watcher
	events  chan api.Event

	mu     sync.Mutex
	leases []api.Lock
	ran    []string // git commands of the daemon
}

func (s *site) Enabled(context.Context, slog.Level) bool { return true }
func (s *site) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s *site) WithGroup(string) slog.Handler            { return s }

// Handle notes git commands: the Runner logs every one.
func (s *site) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if r.Message == "git" && a.Key == "op" {
			s.mu.Lock()
			s.ran = append(s.ran, a.Value.String())
			s.mu.Unlock()
		}
		return true
	})
	return nil
}

// commands returns the git commands since the last call.
func (s *site) commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ran := s.ran
	s.ran = nil
	return ran
}

func newSite(t testing.TB, files map[string]string) *site {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	for d := dir; strings.HasPrefix(d, os.TempDir()+"/"); d = filepath.Dir(d) {
		require.NoError(t, os.Chmod(d, 0o755))
	}
	s := &site{t: t, dir: filepath.Join(dir, "ws"), events: make(chan api.Event, 10000)}
	src := filepath.Join(dir, "src")
	s.git(0, "/", nil, "init", "-q", "-b", "main", src)
	s.write(0, filepath.Join(src, ".git"), "main", "", files)
	s.git(0, src, nil, "reset", "-q", "--hard")
	_, err := worktree.Up(t.Context(), worktree.Spec{Workspace: s.dir, Repo: src, UID: nobody, GID: nobody})
	require.NoError(t, err)
	s.bare = filepath.Join(s.dir, ".polis", "bare-repo.git")
	log := slog.New(s)
	tree := worktree.Open(worktree.Config{Workspace: s.dir, UID: nobody, GID: nobody, Log: log})
	s.watcher = &Watcher{Workspace: "ws", Git: tree, Branches: &branches.Follower{Repo: tree.Bare(), Target: tree.Target, Log: log},
		Scratch: filepath.Join(s.dir, ".polis", "tries"), Turn: make(chan struct{}, 1), Log: log, Now: time.Now,
		Publish: func(e api.Event) { s.events <- e },
		Leases: func() []api.Lock {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.leases
		}}
	return s
}

// open starts the watcher and ends it with the test.
func (s *site) open(agents ...Agent) {
	s.t.Helper()
	s.watcher.Branches.Open(s.t.Context())
	s.t.Cleanup(s.watcher.Branches.Close)
	require.NoError(s.t, s.watcher.Open(s.t.Context()))
	s.t.Cleanup(s.watcher.Close)
	s.watcher.Branches.SetAgents(agents)
}

func (s *site) git(uid uint32, dir string, stdin []byte, args ...string) string {
	s.t.Helper()
	out, err := s.tryGit(uid, dir, stdin, args...)
	require.NoError(s.t, err, "git %v: %s", args, out)
	return out
}

func (s *site) tryGit(uid uint32, dir string, stdin []byte, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(string(stdin))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "GIT_MERGE_AUTOEDIT=no",
		"GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@example.org", "GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@example.org"}
	cred, err := git.Credential(uid, uid)
	require.NoError(s.t, err)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	out, err := cmd.CombinedOutput()
	return strings.TrimSuffix(string(out), "\n"), err
}

// write makes a commit with just these files on a branch.
func (s *site) write(uid uint32, repo, branch, parent string, files map[string]string) {
	s.t.Helper()
	s.git(uid, repo, []byte(stream(branch, parent, files)), "fast-import", "--force", "--quiet", "--date-format=raw")
}

// stream is that commit for git fast-import.
func stream(branch, parent string, files map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "commit refs/heads/%s\ncommitter u <u@example.org> %d +0000\ndata 1\nx\n", branch, time.Now().Unix())
	if parent != "" {
		fmt.Fprintf(&b, "from %s\n", parent)
	}
	b.WriteString("deleteall\n")
	for name, text := range files {
		fmt.Fprintf(&b, "M 100644 inline %s\ndata %d\n%s\n", name, len(text), text)
	}
	return b.String()
}

// commit adds a commit with just these files to a branch of the workspace.
func (s *site) commit(branch, parent string, files map[string]string) {
	s.t.Helper()
	s.write(nobody, s.bare, branch, "refs/heads/"+parent+"^0", files)
}

// await waits for an event of this type and returns it.
func (s *site) await(kind string) api.Event {
	s.t.Helper()
	select {
	case e := <-s.events:
		require.Equal(s.t, kind, e.Type, e.Message)
		return e
	case <-time.After(soon):
		s.t.Fatalf("no %s", kind)
		return api.Event{}
	}
}

// report is a report of a complete scan.
func (s *site) report() api.Conflicts {
	s.t.Helper()
	var c api.Conflicts
	require.Eventually(s.t, func() bool {
		c = s.watcher.Report(s.t.Context())
		return !c.Pending
	}, soon, 10*time.Millisecond)
	require.Empty(s.t, c.Errors)
	return c
}
