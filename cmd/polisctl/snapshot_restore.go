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

func (a *app) snapshotDiffCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "diff ID [LATER]",
		Short: "Show which files differ from a snapshot",
		Long: `Show how the agent's files now, or those of the snapshot LATER, differ from the
snapshot ID: A is added, D removed, M modified, T of another type, P of another mode
or with other extended attributes.`,
		Args: takes(1, 2, "the ID of a snapshot"), ValidArgsFunction: a.completeSnapshots,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSnapshots(args...); err != nil {
				return err
			}
			later := ""
			if len(args) == 2 {
				later = args[1]
			}
			return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
				d, err := c.DiffSnapshot(ctx, args[0], later)
				if err != nil {
					return err
				}
				return a.show(changesView(d))
			})
		},
	}
}

// changesView is how two states differ.
func changesView(d api.SnapshotDiff) view {
	d.Changes = list(d.Changes)
	names := make([]string, 0, len(d.Changes))
	for _, x := range d.Changes {
		names = append(names, x.Path)
	}
	return view{json: d, names: names, human: func(p *page) {
		if len(d.Changes) == 0 {
			p.line("nothing differs")
		}
		for _, x := range d.Changes {
			p.line("%s %s", letter(x.How), x.Path)
		}
	}}
}

// letter is the sign of a change.
func letter(how string) string {
	if l, ok := map[string]string{"added": "A", "removed": "D", "modified": "M", "type": "T", "mode": "P"}[how]; ok {
		return l
	}
	return "?"
}

func (a *app) snapshotVerifyCmd() *cobra.Command {
	var against string
	var own bool
	cmd := &cobra.Command{
		Use:   "verify ID [--worktree|--against AGENT]",
		Short: "Compare everything that a snapshot needs with its hashes",
		Long: `Compare everything that a snapshot needs with its hashes.

With --worktree, or with --against for another agent of the workspace, also compare the
files of the agent as they are now. All of them are read: a file that was changed behind
the agent's view is found, too. The exit status is 1 if something is damaged or differs.`,
		Example: `  polisctl snapshot verify s3f9a1c2e0 --worktree`,
		Args:    takes(1, 1, "the ID of a snapshot"), ValidArgsFunction: a.completeSnapshots,
	}
	cmd.Flags().BoolVar(&own, "worktree", false, "compare the files of the snapshot's agent, too")
	cmd.Flags().StringVar(&against, "against", "", "compare the files of `AGENT`, too")
	cmd.MarkFlagsMutuallyExclusive("worktree", "against")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkSnapshots(args...); err != nil {
			return err
		}
		if cmd.Flags().Changed("against") {
			if err := checkAgents(against); err != nil {
				return err
			}
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			verify := c.VerifySnapshot
			if own || against != "" {
				verify = func(ctx context.Context, id string) (api.SnapshotCheck, error) {
					return c.CompareSnapshot(ctx, id, against)
				}
			}
			v, err := verify(ctx, args[0])
			if err != nil {
				return err
			}
			return a.snapshotChecked(v, against)
		})
	}
	return cmd
}

// snapshotChecked shows the result of a verification, and returns what is wrong. against is the agent that was named, if
// one was.
func (a *app) snapshotChecked(v api.SnapshotCheck, against string) error {
	v.Damaged = list(v.Damaged)
	names := v.Damaged
	for _, c := range v.Changes {
		names = append(names, c.Path)
	}
	err := a.show(view{json: v, names: names, human: func(p *page) {
		if v.Intact {
			p.line("snapshot %s is intact: %s, %d KiB", v.ID, api.Count(v.Objects, "content"), v.Bytes>>10)
		}
		for _, path := range v.Damaged {
			p.line("damaged: %s", path)
		}
		if v.Against != "" && v.Changed == 0 {
			p.line("the files of agent %s are those of the snapshot", v.Against)
		}
		for _, c := range v.Changes {
			p.line("%s %s", letter(c.How), c.Path)
		}
		if more := v.Changed - len(v.Changes); more > 0 {
			p.line("and %d more: %s", more, allDiffer(v.ID, against))
		}
	}})
	switch {
	case err != nil:
		return err
	case !v.Intact:
		return api.Errorf(api.CodeSnapshotCorrupt, "snapshot %s is damaged", v.ID)
	case v.Changed > 0:
		differs := api.Errorf(api.CodeSnapshotDiffers, "%s of agent %s differ from snapshot %s", api.Count(v.Changed, "path"), v.Against, v.ID)
		if against != "" {
			return differs.WithHint("polisctl checkpoint %s, then polisctl snapshot diff %s ID with its ID", against, v.ID)
		}
		return differs.WithHint("polisctl snapshot diff %s", v.ID)
	}
	return nil
}

// allDiffer is the way to all paths that differ from a snapshot. against is another agent than its own; "" is that.
func allDiffer(id, against string) string {
	if against != "" {
		return fmt.Sprintf("polisctl checkpoint %s makes a checkpoint LATER, and polisctl snapshot diff %s LATER lists all", against, id)
	}
	return fmt.Sprintf("polisctl snapshot diff %s lists all", id)
}

func (a *app) snapshotRestoreCmd() *cobra.Command {
	var req api.SnapshotRestoreRequest
	cmd := &cobra.Command{
		Use:   "restore ID [PATH]... [--dry-run]",
		Short: "Bring an agent's files back to a snapshot",
		Long: `Bring the files of the snapshot's agent back to its state: all that the snapshot
covers, or only PATHs, relative to the repository. Files that were made since then are
removed; files that the snapshot does not cover, such as ignored ones, stay. The branch
and the index do not move.

The state before is saved in a snapshot first, so that a restore can be undone. The
agent's processes are frozen meanwhile. If another agent has locked a file that would
change, nothing is changed.`,
		Args: takes(1, -1, "the ID of a snapshot"), ValidArgsFunction: a.completeSnapshots,
	}
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "show what would change, and change nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkSnapshots(args[0]); err != nil {
			return err
		}
		req.Paths = args[1:]
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			p := a.progress("restoring snapshot " + args[0])
			defer p.done()
			r, err := c.RestoreSnapshot(ctx, args[0], req)
			p.done()
			if err != nil {
				return err
			}
			return a.show(restoredView(r, req.DryRun, "polisctl snapshot restore "+r.Before, "polisctl snapshot diff "))
		})
	}
	return cmd
}

// restoredView shows what a restore has changed, or would change. diff is the beginning of the command that lists what
// differs from a snapshot.
func restoredView(r api.SnapshotRestored, dry bool, undo, diff string) view {
	r.Paths = list(r.Paths)
	return view{json: r, names: r.Paths, human: func(p *page) {
		switch {
		case r.Changed == 0 && r.Before == "" && len(r.Refs) == 0:
			p.line("agent %s has these files already", r.Agent)
			return
		case dry:
			p.line("%s of agent %s would change:", api.Count(r.Changed, "path"), r.Agent)
		default:
			p.line("%s of agent %s restored from snapshot %s:", api.Count(r.Changed, "path"), r.Agent, r.ID)
		}
		for _, path := range r.Paths {
			p.line("  %s", path)
		}
		if more := r.Changed - len(r.Paths); more > 0 {
			p.line("  and %d more: %s%s lists all", more, diff, cmp.Or(r.Before, r.ID))
		}
		for _, m := range r.Refs {
			p.line("  %s from %s to %s", m.Ref, refValue(m.From), refValue(m.To))
		}
		if r.Before != "" {
			p.line("to undo it: %s", undo)
		}
	}}
}

// refValue is a commit, shortened, or the name of a ref.
func refValue(v string) string {
	if name, symbolic := strings.CutPrefix(v, "ref: "); symbolic {
		return name
	}
	return short(v)
}

func (a *app) snapshotRmCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "rm ID...",
		Aliases: []string{"remove"},
		Short:   "Delete snapshots",
		Long: `Delete snapshots, with the contents that no other snapshot needs. The agent's
files do not change.`,
		Args: takes(1, -1, "the ID of a snapshot"), ValidArgsFunction: a.completeSnapshots,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSnapshots(args...); err != nil {
				return err
			}
			return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
				for _, id := range args {
					s, err := c.RemoveSnapshot(ctx, id)
					if err != nil {
						return err
					}
					if err := a.show(view{json: s, human: func(p *page) { p.line("snapshot %s was deleted", s.ID) }}); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}
