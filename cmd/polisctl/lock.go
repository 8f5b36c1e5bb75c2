package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// Bounds of an explicit lock.
const (
	maxHold = 30 * 24 * time.Hour
	maxWait = time.Hour
)

const pathHelp = `PATH is a path of the repository: relative to the current directory if that is
inside the project, else to the top of the repository; or absolute.`

func (a *app) lockCmd() *cobra.Command {
	var req api.LockRequest
	var hold, wait time.Duration
	cmd := &cobra.Command{
		Use:   "lock PATH [OPTION]...",
		Short: "Take a lock on a path",
		Long: `Take a lock on a path, so that only its holder can write there. The lock ends when
it is released (polisctl unlock), or after the time of --for. It survives restarts of
polisd. A lock of an agent ends with the agent.

In the sandbox of an agent the agent is the holder, and may lock what it may write.

` + pathHelp,
		Args: takes(1, 1, "one PATH"),
	}
	flags := cmd.Flags()
	flags.StringVarP(&req.Agent, "agent", "a", "", "the `AGENT` that holds it (default: you)")
	flags.StringVarP(&req.Workspace, "workspace", "w", "", "the `WORKSPACE` of the path")
	flags.BoolVar(&req.Read, "read", false, "share it with other readers")
	flags.BoolVar(&req.Tree, "tree", false, "lock everything below PATH as well")
	flags.StringVar(&req.Reason, "reason", "", "`TEXT` that other holders and callers see")
	flags.DurationVar(&hold, "for", 0, "release it after `DURATION` (default: with unlock)")
	flags.DurationVar(&wait, "wait", 0, "wait up to `DURATION` if it is held")
	_ = cmd.RegisterFlagCompletionFunc("agent", a.completeAgents) // fails only for a flag that is not there
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkLock(&req, args[0]); err != nil {
			return err
		}
		if cmd.Flags().Changed("for") {
			if err := checkDuration("for", hold, time.Second, maxHold); err != nil {
				return err
			}
			req.ForSeconds = int((hold + time.Second - 1) / time.Second)
		}
		if err := checkDuration("wait", wait, 0, maxWait); err != nil {
			return err
		}
		req.WaitMillis = int((wait + time.Millisecond - 1) / time.Millisecond)
		if _, inside := a.insidePath(); inside {
			limit := wait + shortCall
			if req.Tree { // locks.trees may be "ask"
				limit += usualAsk
			}
			return a.callInside(cmd, limit, func(ctx context.Context, c *client.Inside) (err error) {
				if req.Path, err = ownPath(ctx, c, args[0]); err != nil {
					return err
				}
				lock, err := c.Lock(ctx, req)
				if err != nil {
					return err
				}
				return a.showLock(lock)
			})
		}
		return a.call(cmd, wait+shortCall, func(ctx context.Context, c *client.Client) error {
			if err := locate(ctx, c, &req, args[0]); err != nil {
				return err
			}
			p := a.progress("waiting for the lock")
			defer p.done()
			lock, err := c.Lock(ctx, req)
			p.done()
			if err != nil {
				return err
			}
			return a.showLock(lock)
		})
	}
	return cmd
}

func (a *app) showLock(lock api.Lock) error {
	return a.show(view{json: lock, names: []string{lock.Path}, human: func(p *page) {
		token := ""
		if lock.Token > 0 {
			token = fmt.Sprintf(" (token %d)", lock.Token)
		}
		p.line("%s holds a %s lock on %s%s", who(lock.Holder), lock.LockType, api.PrintPath(lock.Path), token)
		p.changed(lock.Changed)
	}})
}

// changed warns that what is locked is not the target's text.
func (p *page) changed(c *api.TargetChange) {
	if c != nil {
		p.warn("%s", c.Text())
	}
}

func (a *app) unlockCmd() *cobra.Command {
	var req api.LockRequest
	cmd := &cobra.Command{
		Use:   "unlock PATH [--agent AGENT] [--break [--reason TEXT]]",
		Short: "Release a lock",
		Long: `Release a lock. --break takes it from its holder, which may lose work; it
is the same as polisctl locks break.

` + pathHelp,
		Args: takes(1, 1, "one PATH"),
	}
	flags := cmd.Flags()
	flags.StringVarP(&req.Agent, "agent", "a", "", "the `AGENT` that holds it (default: you)")
	flags.StringVarP(&req.Workspace, "workspace", "w", "", "the `WORKSPACE` of the path")
	flags.BoolVar(&req.Break, "break", false, "release the lock of any holder")
	flags.BoolVar(&req.Break, "force", false, "the same as --break")
	flags.StringVar(&req.Reason, "reason", "", "`TEXT` for the holder and the record, with --break")
	_ = cmd.RegisterFlagCompletionFunc("agent", a.completeAgents) // fails only for a flag that is not there
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkLock(&req, args[0]); err != nil {
			return err
		}
		if req.Reason != "" && !req.Break {
			return usagef("--reason is of --break: giving a lock back needs none")
		}
		if _, inside := a.insidePath(); inside {
			return a.callInside(cmd, shortCall, func(ctx context.Context, c *client.Inside) (err error) {
				if req.Path, err = ownPath(ctx, c, args[0]); err != nil {
					return err
				}
				if req.Break {
					return api.Errorf(api.CodeForbidden, "an agent cannot break locks").WithHint("ask the administrator")
				}
				if err := c.Unlock(ctx, req); err != nil {
					return err
				}
				return a.showUnlocked(req.Path)
			})
		}
		return a.unlock(cmd, &req, args[0])
	}
	return cmd
}

func (a *app) unlock(cmd *cobra.Command, req *api.LockRequest, path string) error {
	return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
		if err := locate(ctx, c, req, path); err != nil {
			return err
		}
		if err := c.Unlock(ctx, *req); err != nil {
			return err
		}
		return a.showUnlocked(req.Path)
	})
}

func (a *app) showUnlocked(path string) error {
	return a.show(view{json: map[string]string{"path": path}, human: func(p *page) {
		p.line("%s is unlocked", path)
	}})
}

func (a *app) breakCmd() *cobra.Command {
	req := api.LockRequest{Break: true}
	cmd := &cobra.Command{
		Use:   "break PATH [--reason TEXT]",
		Short: "Take a lock from its holder",
		Long: `Break every lock on exactly PATH. Its holder may lose work: its open files stay
open, but other agents can then change them. An event names the person who broke
the lock and the reason.

` + pathHelp,
		Args: takes(1, 1, "one PATH"),
	}
	cmd.Flags().StringVarP(&req.Workspace, "workspace", "w", "", "the `WORKSPACE` of the path")
	cmd.Flags().StringVar(&req.Reason, "reason", "", "`TEXT` for the holder and the record")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkLock(&req, args[0]); err != nil {
			return err
		}
		return a.unlock(cmd, &req, args[0])
	}
	return cmd
}

func checkLock(req *api.LockRequest, path string) error {
	if err := checkText("PATH", path, maxText); err != nil {
		return err
	}
	if req.Agent != "" {
		if err := checkAgents(req.Agent); err != nil {
			return err
		}
	}
	if req.Reason != "" {
		if err := checkText("reason", req.Reason, 1024); err != nil {
			return err
		}
	}
	return checkWorkspace(req.Workspace)
}
