package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) locksCmd() *cobra.Command {
	var watch bool
	var workspace string
	cmd := &cobra.Command{
		Use:   "locks [--watch]",
		Short: "List the locks held now",
		Long: `List the present locks: the holder, the path, the time since which it is held, when it
ends, its fencing token, and its waiters. In the sandbox of an agent, only its own.`,
		Args: takes(0, 0, ""),
	}
	cmd.AddCommand(a.breakCmd())
	cmd.Flags().BoolVar(&watch, "watch", false, "continue until interrupted")
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only locks of this `WORKSPACE`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		if _, inside := a.insidePath(); inside {
			if watch {
				return usagef("--watch is not for sandboxes").WithHint("/run/polis/locks is kept up to date")
			}
			return a.callInside(cmd, shortCall, func(ctx context.Context, c *client.Inside) error {
				held, err := c.Held(ctx)
				if err != nil {
					return err
				}
				return a.show(locksView(held.Locks, func(api.Lock) bool { return true }))
			})
		}
		return a.watched(cmd, watch, func(ctx context.Context, c *client.Client) (view, error) {
			locks, err := c.LocksOf(ctx, workspace)
			if err != nil {
				return view{}, err
			}
			return locksView(locks, func(api.Lock) bool { return true }), nil
		})
	}
	return cmd
}

func (a *app) agentLocksCmd() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:               "locks [NAME] [--watch]",
		Short:             "List the locks agents hold or wait for",
		Args:              takes(0, 1, "one NAME"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "continue until interrupted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args...); err != nil {
			return err
		}
		return a.watched(cmd, watch, func(ctx context.Context, c *client.Client) (view, error) {
			if len(args) > 0 {
				if _, err := c.Agent(ctx, args[0]); err != nil {
					return view{}, err
				}
			}
			locks, err := c.Locks(ctx)
			if err != nil {
				return view{}, err
			}
			return locksView(locks, func(l api.Lock) bool {
				if len(args) == 0 || l.Holder == args[0] {
					return true
				}
				for _, w := range l.Waiters {
					if w == args[0] {
						return true
					}
				}
				return false
			}), nil
		})
	}
	return cmd
}

func locksView(locks []api.Lock, want func(api.Lock) bool) view {
	kept := []api.Lock{}
	var paths []string
	for _, l := range locks {
		if want(l) {
			kept = append(kept, l)
			paths = append(paths, l.Path)
		}
	}
	return view{json: map[string]any{"locks": kept}, names: paths, human: func(p *page) {
		rows := make([][]cell, 0, len(kept))
		for _, l := range kept {
			path, left := api.PrintPath(l.Path), cmp.Or(l.Hold, "-")
			if l.Tree {
				path += "/**"
			}
			if l.ExpiresAt != nil {
				left = span(l.ExpiresAt.Sub(p.now))
			}
			rows = append(rows, []cell{
				{text: path}, {text: who(l.Holder)}, {text: l.LockType}, {text: p.ago(l.AcquiredAt)}, {text: left},
				{text: fmt.Sprint(l.Token)}, {waiting(p, l), yellow}, {text: l.Workspace}, {text: l.Reason},
			})
		}
		p.table("no locks", []string{"PATH", "HOLDER", "TYPE", "HELD", "HOLD", "TOKEN", "WAITING", "WORKSPACE", "REASON"}, rows)
	}}
}

// waiting names the waiters of a lock, and how long they have waited.
func waiting(p *page, l api.Lock) string {
	out := make([]string, 0, max(len(l.Waiting), len(l.Waiters)))
	if len(l.Waiting) == 0 {
		for _, name := range l.Waiters {
			out = append(out, who(name))
		}
	}
	for _, w := range l.Waiting {
		out = append(out, who(w.Holder)+" "+p.ago(w.Since))
	}
	return strings.Join(out, ", ")
}
