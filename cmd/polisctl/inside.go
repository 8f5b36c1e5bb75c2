package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// insidePath returns the socket of the agent's own shim if polisctl runs in a
// sandbox, where polisd is not to be reached: the one that is configured, or
// the one that is there.
func (a *app) insidePath() (string, bool) {
	path := a.socket
	if path == "" {
		path = a.getenv("POLIS_SOCKET")
	}
	if path != "" {
		return path, filepath.Base(path) == filepath.Base(client.InsideSocket)
	}
	if _, err := os.Lstat(client.DefaultSocket); err == nil {
		return "", false
	}
	fi, err := os.Lstat(client.InsideSocket)
	return client.InsideSocket, err == nil && fi.Mode().Type() == os.ModeSocket
}

// callInside runs fn with a client of the sandbox's own socket.
func (a *app) callInside(cmd *cobra.Command, limit time.Duration, fn func(context.Context, *client.Inside) error) error {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	path, _ := a.insidePath()
	c := client.NewInside(path)
	defer c.Close()
	return fn(ctx, c)
}

// ownPath turns what was typed in a sandbox into a path of the repository.
func ownPath(ctx context.Context, c *client.Inside, typed string) (string, error) {
	st, err := c.Status(ctx)
	if err != nil {
		return "", err
	}
	cwd, err := os.Getwd()
	if err != nil {
		cwd = ""
	}
	_, p, err := repositoryPath([]api.Workspace{{Name: st.Workspace, Project: st.Project}, {Name: st.Workspace, Project: st.Worktree}}, "", cwd, typed)
	return p, err
}

// Bounds of wait.
const (
	longestWait = 24 * time.Hour
	defaultKeep = 5 * time.Second
	longestKeep = 10 * time.Minute
)

func (a *app) waitCmd() *cobra.Command {
	var keep time.Duration
	cmd := &cobra.Command{
		Use:   "wait PATH [--timeout DURATION] [--keep DURATION]",
		Short: "In a sandbox: wait until a path can be written",
		Long: `Wait until no other agent has a lock on PATH. It is for agents, in their sandbox.

Waiters are served in order. At its turn, the path is reserved for this agent for a
few seconds, so that its next write succeeds. A write then takes a lease as usual.

Without --timeout it waits for 24 hours at most. The exit status is 0 when the
path is free, 7 if it was still locked at the end of the timeout, 5 if the
agent's policy does not let it write there, and 6 if polisd cannot be reached.

` + pathHelp,
		Example: `  polisctl wait src/main.go --timeout 2m && make fix`,
		Args:    takes(1, 1, "one PATH"),
	}
	cmd.Flags().DurationVar(&keep, "keep", defaultKeep, "reserve the path for `DURATION` once it is free; 0: do not reserve it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkText("PATH", args[0], maxText); err != nil {
			return err
		}
		if err := checkDuration("keep", keep, 0, longestKeep); err != nil {
			return err
		}
		if _, inside := a.insidePath(); !inside {
			return api.Errorf(api.CodeBadState, "wait is for agents, in their sandbox").
				WithHint("polisctl locks --watch shows who has what; polisctl lock PATH --wait 1m waits for a lock of your own")
		}
		wait := longestWait
		if a.timeout > 0 {
			wait = min(a.timeout, longestWait)
		}
		return a.callInside(cmd, wait+shortCall, func(ctx context.Context, c *client.Inside) error {
			p, err := ownPath(ctx, c, args[0])
			if err != nil {
				return err
			}
			progress := a.progress("waiting for " + clean(p))
			defer progress.done()
			began := a.now()
			res, err := c.Wait(ctx, api.WaitRequest{Path: p, WaitMillis: int(wait.Milliseconds()), KeepMillis: int(keep.Milliseconds())})
			progress.done()
			if err != nil {
				return err
			}
			res.Path, res.WaitedMillis = p, a.now().Sub(began).Milliseconds()
			return a.show(view{json: res, human: func(pg *page) {
				pg.line("%s is free", p)
				pg.changed(res.Changed)
			}})
		})
	}
	return cmd
}
