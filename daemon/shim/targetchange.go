package shim

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"polis/cgroup/sandbox"
	"polis/daemon/api"
)

const (
	// changeTime bounds the search for a change of the target.
	changeTime = 5 * time.Second
	// changePause is the shortest time between two searches that no request waits for.
	changePause = time.Second
	// longWait is the wait for a lease after which the target is searched.
	longWait = 100 * time.Millisecond
	// maxChange bounds what git prints of a change, in bytes.
	maxChange = 1 << 10
)

// targetChange returns the last commit of the target that changes path and is not in the agent's
// branch, or nil: then the agent's text is the one that its lease protects, or git does not know.
// git runs in the sandbox, as the agent may change all that it reads.
func (s *Shim) targetChange(ctx context.Context, path string) *api.TargetChange {
	if !s.Spec.Git || s.Spec.Target == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	out, err := s.gitOutput(ctx, "log", "-1", "--no-show-signature", "--no-color", "--format=%h%x09%an", "HEAD..refs/heads/"+s.Spec.Target, "--", ":(top,literal)"+path)
	if err != nil {
		s.Log.Debug("change of the target not searched", "path", path, "err", err)
		return nil
	}
	commit, author, ok := strings.Cut(strings.TrimSuffix(out, "\n"), "\t")
	if !ok {
		return nil
	}
	return &api.TargetChange{Path: path, Target: s.Spec.Target, Commit: api.Shorten(commit, 64), Author: api.Shorten(author, 100)}
}

// gitOutput runs git in the sandbox and returns the beginning of what it prints.
func (s *Shim) gitOutput(ctx context.Context, args ...string) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	proc, err := s.sandbox.Start(sandbox.Process{Args: append([]string{"git"}, args...), Env: s.env([]string{"LC_ALL=C", "GIT_OPTIONAL_LOCKS=0"}, false), Cwd: s.Spec.ProjectPath, Stdout: w})
	_ = w.Close() //nolint:errcheck // our copy of the child's end
	if err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() {
		_ = proc.Signal(syscall.SIGKILL) //nolint:errcheck // it may have ended
		_ = r.Close()                    //nolint:errcheck // ends the read below: a child of git's may have the other end
	})
	defer stop()
	out, err := io.ReadAll(io.LimitReader(r, maxChange))
	if err != nil {
		return "", fmt.Errorf("read git's output: %w", err)
	}
	_ = r.Close() //nolint:errcheck // a git that prints more ends by SIGPIPE
	if code, err := proc.Wait(); err != nil || code != 0 {
		return "", fmt.Errorf("git ended with exit code %d: %w", code, err)
	}
	return string(out), nil
}

// gotLate notes that a program of the agent got a lease after a wait. It never blocks: while a
// search is under way, others are dropped.
func (s *Shim) gotLate(path string) {
	select {
	case s.late <- path:
	default:
	}
}

// watchLate reports files that changed on the target while a program of the agent waited for
// them.
func (s *Shim) watchLate() {
	for {
		select {
		case path := <-s.late:
			if c := s.targetChange(s.ctx, path); c != nil {
				s.views.behind.add(*c)
				s.inside.touchLocks()
				s.events.Publish(api.Event{Type: api.EventLockBehind, Agent: s.Spec.Agent, Message: "agent " + s.Spec.Agent + " waited for a lock: " + c.Text(),
					Data: map[string]any{"path": c.Path, "target": c.Target, "commit": c.Commit, "author": c.Author}})
			}
		case <-s.ctx.Done():
			return
		}
		select {
		case <-time.After(changePause):
		case <-s.ctx.Done():
			return
		}
	}
}
