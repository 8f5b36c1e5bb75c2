package main

import (
	"context"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) snapshotMountCmd() *cobra.Command {
	var req api.SnapshotMountRequest
	cmd := &cobra.Command{
		Use:   "mount ID|NAME [--at DIR|--inside]",
		Short: "Mount a snapshot as a read-only directory",
		Long: `Mount the snapshot or checkpoint ID, or the last one of agent NAME, as a read-only
directory, and print its path. What is read there is compared with its hash: damaged
content is an input/output error. Programs in it cannot be executed, and extended
attributes are not shown. The user of the agent, the group of polis and root can enter it.

It stays mounted until snapshot umount, or until the agent stops: the agent must be up.
A snapshot that was mounted is kept until snapshot rm.

With --inside it is mounted in the sandbox of its agent, at /run/polis/snapshots/ID. The
agent's rules hold there as they are now: what they hide is not there, and what they do
not let the agent read, or only with an approval, cannot be opened. Such a snapshot is
kept as long as it is mounted. An agent can have 8 of them.

In a sandbox an agent mounts its own checkpoints: ID is as --to of polisctl rewind, and
is left out for the last one.`,
		Example: `  polisctl snapshot mount s3f9a1c2e0
  polisctl snapshot mount claude --at /mnt/before
  polisctl snapshot mount s3f9a1c2e0 --inside`,
		Args: a.takesSnapshot(true), ValidArgsFunction: a.completeSnapshots,
	}
	cmd.Flags().StringVar(&req.At, "at", "", "mount it at the empty directory `DIR`")
	cmd.Flags().BoolVar(&req.Inside, "inside", false, "mount it in the sandbox of its agent")
	cmd.MarkFlagsMutuallyExclusive("at", "inside")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, inside := a.insidePath(); inside {
			return a.ownMount(cmd, api.TimelineMount, args)
		}
		if err := checkSnapshots(args...); err != nil {
			return err
		}
		if cmd.Flags().Changed("at") {
			at, err := filepath.Abs(req.At)
			if err == nil {
				at, err = filepath.EvalSymlinks(at)
			}
			if err != nil || req.At == "" {
				return usagef("--at %q is no directory: %v", req.At, err)
			}
			req.At = at
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			id, err := snapshotID(ctx, c, args[0])
			if err != nil {
				return err
			}
			m, err := c.MountSnapshot(ctx, id, req)
			if err != nil {
				return err
			}
			return a.show(mountView(m, api.TimelineMount))
		})
	}
	return cmd
}

// mountView shows what was mounted, or unmounted.
func mountView(m api.SnapshotMount, op string) view {
	where := clean(m.At)
	if m.Inside {
		where += " in the sandbox of agent " + m.Agent
	}
	if op == api.TimelineUnmount {
		return view{json: m, human: func(p *page) { p.line("snapshot %s was unmounted from %s", m.ID, where) }}
	}
	return view{json: m, names: []string{m.At}, human: func(p *page) { p.line("snapshot %s is mounted at %s", m.ID, where) }}
}

// takesSnapshot requires the ID of a snapshot. In a sandbox a mount can do without.
func (a *app) takesSnapshot(mount bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if _, inside := a.insidePath(); inside && mount {
			return takes(0, 1, "at most the ID of a checkpoint")(cmd, args)
		}
		return takes(1, 1, "the ID of a snapshot or the NAME of an agent")(cmd, args)
	}
}

// ownMount mounts a checkpoint of the agent itself in its sandbox, or unmounts it.
func (a *app) ownMount(cmd *cobra.Command, op string, args []string) error {
	if cmd.Flags().Changed("at") {
		return usagef("%s --at is not for a sandbox", cmd.CommandPath()).WithHint("leave it out: a checkpoint is mounted below /run/polis/snapshots")
	}
	req := api.TimelineRequest{Op: op}
	if len(args) == 1 {
		if err := checkText("ID", args[0], maxText); err != nil {
			return err
		}
		req.Which = args[0]
	}
	return a.callInside(cmd, longCall, func(ctx context.Context, c *client.Inside) error {
		res, err := c.Timeline(ctx, req)
		if err != nil {
			return err
		}
		if res.Mounted == nil {
			return api.Errorf(api.CodeInternal, "the answer does not say what was mounted")
		}
		return a.show(mountView(*res.Mounted, op))
	})
}

func (a *app) snapshotUmountCmd() *cobra.Command {
	var within bool
	cmd := &cobra.Command{
		Use:     "umount ID [--inside]",
		Aliases: []string{"unmount"},
		Short:   "Unmount a snapshot",
		Long: `Unmount a snapshot. A program that still uses it gets errors from then on. With --inside
it is unmounted from the sandbox of its agent; in a sandbox that needs no --inside.`,
		Args: a.takesSnapshot(false), ValidArgsFunction: a.completeSnapshots,
	}
	cmd.Flags().BoolVar(&within, "inside", false, "unmount it from the sandbox of its agent")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkSnapshots(args...); err != nil {
			return err
		}
		if _, inside := a.insidePath(); inside {
			return a.ownMount(cmd, api.TimelineUnmount, args)
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			m, err := c.UnmountSnapshot(ctx, args[0], within)
			if err != nil {
				return err
			}
			return a.show(mountView(m, api.TimelineUnmount))
		})
	}
	return cmd
}

var looksLikeID = regexp.MustCompile(`^s[0-9a-f]{10}$`)

// snapshotID returns the ID that a person means: itself, or the last snapshot or checkpoint of an agent.
func snapshotID(ctx context.Context, c *client.Client, arg string) (string, error) {
	if looksLikeID.MatchString(arg) {
		return arg, nil
	}
	if _, err := c.Snapshot(ctx, arg); api.CodeOf(err) != api.CodeNotFound {
		return arg, err
	}
	if err := checkAgents(arg); err != nil {
		return "", err
	}
	all, err := c.Timeline(ctx, arg)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "", api.Errorf(api.CodeNotFound, "agent %s has no snapshot", arg).WithHint("polisctl snapshot create %s", arg)
	}
	return all[len(all)-1].ID, nil
}
