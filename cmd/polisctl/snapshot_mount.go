package main

import (
	"context"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/client"
)

func (a *app) snapshotMountCmd() *cobra.Command {
	var req api.SnapshotMountRequest
	cmd := &cobra.Command{
		Use:   "mount ID|NAME [--at DIR]",
		Short: "Mount a snapshot as a read-only directory",
		Long: `Mount the snapshot or checkpoint ID, or the last one of agent NAME, as a read-only
directory, and print its path. What is read there is compared with its hash: damaged
content is an input/output error. Programs in it cannot be executed, and extended
attributes are not shown. The user of the agent, the group of polis and root can enter it.

It stays mounted until snapshot umount, or until the agent stops: the agent must be up.
A snapshot that was mounted is kept until snapshot rm.`,
		Example: `  polisctl snapshot mount s3f9a1c2e0
  polisctl snapshot mount claude --at /mnt/before`,
		Args: takes(1, 1, "the ID of a snapshot or the NAME of an agent"), ValidArgsFunction: a.completeSnapshots,
	}
	cmd.Flags().StringVar(&req.At, "at", "", "mount it at the empty directory `DIR`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
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
			return a.show(view{json: m, names: []string{m.At}, human: func(p *page) { p.line("snapshot %s is mounted at %s", m.ID, m.At) }})
		})
	}
	return cmd
}

func (a *app) snapshotUmountCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "umount ID",
		Aliases: []string{"unmount"},
		Short:   "Unmount a snapshot",
		Args:    takes(1, 1, "the ID of a snapshot"), ValidArgsFunction: a.completeSnapshots,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSnapshots(args...); err != nil {
				return err
			}
			return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
				m, err := c.UnmountSnapshot(ctx, args[0])
				if err != nil {
					return err
				}
				return a.show(view{json: m, human: func(p *page) { p.line("snapshot %s was unmounted from %s", m.ID, m.At) }})
			})
		},
	}
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
