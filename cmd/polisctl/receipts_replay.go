package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) receiptsReplayCmd() *cobra.Command {
	var ws, dir, branch string
	cmd := &cobra.Command{
		Use:   "replay [ENTRY] [-w WORKSPACE] [--to DIR [--branch BRANCH]]",
		Short: "Rebuild the state at a receipt, and compare it with what there is",
		Long: `Rebuild the state of a workspace at ENTRY of its log from its receipts alone, and print the
agents that existed, with the hashes of their policies and the leases that they held, the
commits of the targets by merges, refs of agents, snapshots, and the last checkpoint of
each agent. Without ENTRY it is the newest one.

Compare it with what can be verified: the commits are in the repository and in the history
of their branch, the snapshots and the last checkpoints are intact, and at the newest entry the agents, policies and
leases are those that polisd has. The exit status is 1 if something differs, or if the
chain of receipts is broken.

With --to, write the files of the target at that entry into DIR, which must not exist yet, and
compare the hash of what was written with that of the commit. Files have the contents
that git stores: no filter and no attribute applies.`,
		Example: "  polisctl receipts replay\n  polisctl receipts replay 17 --to /tmp/at-17",
		Args:    takes(0, 1, "at most the number of an ENTRY"),
	}
	cmd.Flags().StringVarP(&ws, "workspace", "w", "", "of this `WORKSPACE`")
	cmd.Flags().StringVar(&dir, "to", "", "write the files of the target into the new directory `DIR`")
	cmd.Flags().StringVar(&branch, "branch", "", "with --to: the target, if there are several `BRANCH`es with merges")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkWorkspace(ws); err != nil {
			return err
		}
		if branch != "" && dir == "" {
			return usagef("--branch needs --to")
		}
		var entry uint64
		if len(args) == 1 {
			var err error
			if entry, err = strconv.ParseUint(args[0], 10, 64); err != nil || entry == 0 {
				return usagef("ENTRY %q is not a number above 0", api.Shorten(args[0], 32))
			}
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			r, err := c.ReplayReceipts(ctx, ws, entry)
			if err != nil {
				return err
			}
			written := ""
			if dir != "" {
				if written, err = a.replayTree(ctx, c, &r, branch, dir); err != nil {
					return err
				}
			}
			if err := a.show(view{json: r, human: func(p *page) { replayRows(p, &r, written) }}); err != nil {
				return err
			}
			if len(r.Differences) > 0 {
				d := r.Differences[0]
				return api.Errorf(api.CodeReceiptsBroken, "the receipts of workspace %s and what there is differ: %s: recorded %q, found %q", r.Workspace, d.What, d.Recorded, d.Found).
					WithHint("what was changed without polis, such as by a forced push, has no receipt")
			}
			return nil
		})
	}
	return cmd
}

// replayTree writes the files of a target, and compares their hash.
func (a *app) replayTree(ctx context.Context, c *client.Client, r *api.ReceiptsReplay, branch, dir string) (string, error) {
	var t *api.ReplayedTarget
	for i := range r.Targets {
		if r.Targets[i].Branch == branch || branch == "" && len(r.Targets) == 1 {
			t = &r.Targets[i]
		}
	}
	if t == nil {
		return "", api.Errorf(api.CodeNotFound, "there is no merge into one branch up to entry %d: %d branches have merges; --branch names one", r.Entry, len(r.Targets)).
			WithHint("polisctl receipts show --type agent:merged lists them")
	}
	in, err := c.ReplayTree(ctx, r.Workspace, r.Entry, t.Branch)
	if err != nil {
		return "", err
	}
	defer in.Close()
	files, tree, err := writeTree(in, dir, t.Tree)
	if err != nil {
		return "", api.Errorf(api.CodeBadRequest, "%w", err).WithHint("give a directory that does not exist, with room for the files")
	}
	r.Verified++
	if tree != t.Tree {
		r.Differences = append(r.Differences, api.ReplayDifference{What: "files of " + t.Branch, Recorded: "tree " + t.Tree, Found: "tree " + tree})
	}
	return fmt.Sprintf("%s of %s at %s in %s: tree %s", api.Count(files, "file"), t.Branch, api.Shorten(t.Commit, 12), dir, tree), nil
}

func replayRows(p *page, r *api.ReceiptsReplay, written string) {
	p.line("workspace %s at entry %d of %s: state %s", r.Workspace, r.Entry, r.Time.Local().Format("2006-01-02 15:04:05"), r.StateHash)
	var rows [][]cell
	for _, x := range r.Agents {
		var held []string
		for _, l := range x.Leases {
			held = append(held, l.Path)
		}
		rows = append(rows, []cell{{text: x.Name}, {text: x.Branch}, {text: x.Role}, {text: short(x.PolicyHash)}, {text: api.Shorten(strings.Join(held, " "), 60)}})
	}
	p.table("no agents", []string{"AGENT", "BRANCH", "ROLE", "POLICY", "LEASES"}, rows)
	rows = nil
	for _, x := range r.Targets {
		rows = append(rows, []cell{{text: x.Branch}, {text: short(x.Commit)}, {text: short(x.Tree)}, {text: fmt.Sprint(x.Merges)}, {text: fmt.Sprint(x.Entry)}})
	}
	p.table("no merges", []string{"TARGET", "COMMIT", "TREE", "MERGES", "ENTRY"}, rows)
	for _, x := range r.Refs {
		p.line("agent %s has published %s", x.Agent, x.Ref)
	}
	for _, x := range r.Snapshots {
		p.line("snapshot %s of agent %s: content %s", x.ID, x.Agent, short(x.Hash))
	}
	for _, x := range r.Agents {
		if c := x.Checkpoint; c != nil {
			p.line("checkpoint %s of agent %s, %s: content %s", c.ID, x.Name, c.Why, short(cmp.Or(c.Hash, c.List)))
		}
	}
	if written != "" {
		p.line("%s", written)
	}
	for _, text := range r.Unknown {
		p.line("not known: %s", text)
	}
	p.line("%s, %s", api.Count(r.Verified, "comparison"), api.Count(len(r.Differences), "difference"))
	for _, d := range r.Differences {
		p.line("%s: recorded %s, found %s", d.What, d.Recorded, d.Found)
	}
}
