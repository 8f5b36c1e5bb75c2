package queue

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/worktree"
	"polis/daemon/merge"
)

const nobody = 65534

// real is a workspace of 10,000 files with a branch per agent that changes ten
// of them, no two the same.
type real struct {
	config    worktree.Config
	workspace *worktree.Workspace
	merger    *merge.Merger
	base      string
	landed    chan Outcome
	batch     int
}

func (r *real) Prepare(_ context.Context, e api.QueueEntry) (Job, error) {
	return Job{Request: merge.Request{Agent: e.Agent, Branch: "agent/" + e.Agent, Trailer: "Polis-Agent: " + e.Agent}}, nil
}
func (r *real) BatchMerger() (*BatchMerger, int) { return &BatchMerger{Merges: r.merger}, r.batch }
func (r *real) Landed(_ context.Context, o Outcome) (api.QueueOutcome, error) {
	r.landed <- o
	return api.QueueOutcome{}, nil
}
func (r *real) Save() error { return nil }

func run(b testing.TB, uid uint32, dir string, stdin []byte, args ...string) string {
	b.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	cred, err := git.Credential(uid, uid)
	require.NoError(b, err)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	out, err := cmd.CombinedOutput()
	require.NoError(b, err, "git %v: %s", args, out)
	return string(bytes.TrimSpace(out))
}

const who = "u <u@example.org> 1700000000 +0000"

func files(n, of int, text string) []byte {
	var in bytes.Buffer
	for i := range of {
		at := n*of + i
		text := fmt.Sprintf("line one of file %d\n%s\nline three\n", at, text)
		fmt.Fprintf(&in, "M 100644 inline dir%d/sub%d/file%d\ndata %d\n%s\n", at%10, at/10%10, at, len(text), text)
	}
	return in.Bytes()
}

func workspace(b testing.TB, agents int) *real {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	dir := b.TempDir()
	require.NoError(b, os.Chmod(filepath.Dir(dir), 0o755))
	src := filepath.Join(dir, "src")
	require.NoError(b, os.Mkdir(src, 0o755))
	run(b, 0, src, nil, "init", "-q", "-b", "main")
	run(b, 0, src, nil, "config", "user.name", "Ann") // an owner who commits
	run(b, 0, src, nil, "config", "user.email", "ann@example.org")
	run(b, 0, src, append([]byte("commit refs/heads/main\ncommitter "+who+"\ndata 5\nfirst\n"), files(0, 10000, "two")...), "fast-import", "--quiet")
	run(b, 0, src, nil, "reset", "-q", "--hard")
	w := worktree.Config{Workspace: filepath.Join(dir, "ws"), UID: nobody, GID: nobody}
	_, err := worktree.Up(b.Context(), worktree.Spec{Workspace: w.Workspace, Repo: src, UID: nobody, GID: nobody})
	require.NoError(b, err)
	r := &real{config: w, workspace: worktree.Open(w), landed: make(chan Outcome, agents)}
	r.merger = &merge.Merger{Workspace: r.workspace, Log: slog.New(slog.DiscardHandler)}
	r.base = run(b, 0, src, nil, "rev-parse", "main")
	var in bytes.Buffer
	for i := range agents {
		fmt.Fprintf(&in, "commit refs/heads/agent/a%d\ncommitter %s\ndata 4\nwork\nfrom %s\n", i, who, r.base)
		in.Write(files(i, 10, fmt.Sprint("by ", i)))
	}
	run(b, nobody, r.workspace.Bare().Dir, in.Bytes(), "fast-import", "--quiet")
	return r
}

// counted has every start of git written to log, a line each.
func (r *real) counted(log io.Writer) {
	c := r.config
	c.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.workspace = worktree.Open(c)
	r.merger = &merge.Merger{Workspace: r.workspace, Log: slog.New(slog.DiscardHandler)}
}

// BenchmarkMergeOfTenFiles is one branch's way from the line to the target and
// into the user's checkout.
func BenchmarkMergeOfTenFiles(b *testing.B) {
	const n = 200
	r := workspace(b, n)
	l := &BatchMerger{Merges: r.merger}
	b.ResetTimer()
	for i := range b.N {
		require.Less(b, i, n, "there are no more branches")
		j, err := r.Prepare(b.Context(), entry(fmt.Sprint("a", i)))
		require.NoError(b, err)
		out := l.Land(b.Context(), []Job{j})
		require.NoError(b, out[0].Err)
		require.Equal(b, "updated", out[0].Project, out[0].Note)
	}
}

// BenchmarkHundredQueued is a hundred branches that do not conflict, from the
// first that is merged to the last.
func BenchmarkHundredQueued(b *testing.B) {
	for _, batch := range []int{1, 16} {
		b.Run(fmt.Sprint("batch=", batch), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				r := workspace(b, 100)
				r.batch = batch
				w := &Worker{Host: r, Log: r.merger.Log, Now: time.Now}
				for i := range 100 {
					_, err := w.Add(entry(fmt.Sprint("a", i)))
					require.NoError(b, err)
				}
				b.StartTimer()
				w.Open(b.Context())
				for range 100 {
					o := <-r.landed
					require.NoError(b, o.Err)
				}
				b.StopTimer()
				w.Close()
				n, err := r.workspace.Bare().Count(b.Context(), "--first-parent", "--min-parents=2", "main")
				require.NoError(b, err)
				require.Equal(b, 100, n)
			}
		})
	}
}
