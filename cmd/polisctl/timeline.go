package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) timelineCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "timeline [NAME]",
		Short: "List the checkpoints of an agent, oldest first",
		Long: `List the checkpoints and snapshots of agent NAME with the reason of each, and what
changed since the one before. A checkpoint has every file that git does not ignore,
committed or not, and the index. An agent gets one before each task, before a merge or
rebase of its branch, before a restore or rewind, and after snapshots.every (one
minute) in which something changed while it ran. An agent whose role has
[roles.NAME.tools] also gets one before a call of a tool that can change files, at
most one in a second. polisctl checkpoint makes one. If nothing has changed since the
last checkpoint, only a task, a merge and a rebase have one of their own. The oldest
are removed, first those of tools and of time: see snapshots.keep, snapshots.ttl and
snapshots.agent_mb in polisd.toml(5).

In a sandbox it lists the checkpoints of the agent itself, and NAME is left out.

The view knows what changed, so a checkpoint reads only that. If it does not know,
because the agent was started again, for example, the whole tree is read; the last
column then has the reason.`,
		Example: `  polisctl timeline claude
  polisctl rewind claude --to 5m`,
		Args: a.takesAgent(0), ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.callTimeline(cmd, args, shortCall, func(ctx context.Context, name string, c timelineCalls) error {
				all, err := c.Timeline(ctx, name)
				if err != nil {
					return err
				}
				return a.show(view{json: map[string]any{"checkpoints": list(all)}, names: snapshotIDs(all), human: func(p *page) {
					rows := make([][]cell, 0, len(all))
					for _, s := range all {
						rows = append(rows, []cell{{text: s.ID}, {text: p.ago(s.Time)}, {text: whyOf(s)}, {text: api.Shorten(s.Note, 30)}, {text: changedIn(s)}})
					}
					p.table(whose(name)+" has no checkpoints", []string{"ID", "SINCE", "WHY", "NOTE", "CHANGED"}, rows)
					if slices.ContainsFunc(all, func(s api.Snapshot) bool { return s.Whole == "" && s.ChangedCount > fewChanged }) {
						p.line("all paths: polisctl diff%s --from ID --to LATER", strings.TrimRight(" "+name, " "))
					}
				}})
			})
		},
	}
}

// whyOf is the reason of a checkpoint.
func whyOf(s api.Snapshot) string {
	switch {
	case s.Why == api.SnapshotByTask && s.Task > 0:
		return fmt.Sprintf("before task %d", s.Task)
	case (s.Why == api.SnapshotByMerge || s.Why == api.SnapshotByTool) && s.For != "":
		return "before " + s.Why + " " + api.Shorten(s.For, 30)
	case s.Why == api.SnapshotByRestore && s.ByAgent:
		return "before its own rewind"
	}
	if text, ok := map[string]string{api.SnapshotByUser: "snapshot", api.SnapshotByRestore: "before a rewind", api.SnapshotByMerge: "before a merge", api.SnapshotByRebase: "before a rebase",
		api.SnapshotByTool: "before a tool", api.SnapshotByRequest: "requested", api.SnapshotByAgent: "requested by it"}[s.Why]; ok {
		return text
	}
	return s.Why
}

// fewChanged is how many paths of a checkpoint are shown.
const fewChanged = 3

// changedIn is what a checkpoint has that the one before did not.
func changedIn(s api.Snapshot) string {
	switch {
	case s.Whole != "":
		return "all was read: " + s.Whole
	case s.ChangedCount == 0:
		return "-"
	}
	text := strings.Join(s.Changed[:min(fewChanged, len(s.Changed))], " ")
	if more := s.ChangedCount - fewChanged; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (a *app) checkpointCmd() *cobra.Command {
	var req api.CheckpointRequest
	cmd := &cobra.Command{
		Use:   "checkpoint [NAME] [--note TEXT]",
		Short: "Save what has changed in an agent's files",
		Long: `Make a checkpoint of agent NAME, and print its ID. If nothing has changed since the
last one, that is printed. The agent's processes are frozen while what changed is read.
polisctl timeline lists checkpoints, and polisctl rewind goes back to one.

In a sandbox it makes a checkpoint of the agent itself, and NAME is left out.`,
		Args: a.takesAgent(0), ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().StringVar(&req.Note, "note", "", "a `TEXT` to find it again")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkText("note", req.Note, maxSnapshotNote); err != nil && req.Note != "" {
			return err
		}
		return a.callTimeline(cmd, args, longCall, func(ctx context.Context, name string, c timelineCalls) error {
			p := a.progress("reading what changed in " + whose(name))
			defer p.done()
			s, err := c.Checkpoint(ctx, name, req)
			p.done()
			if err != nil {
				return err
			}
			return a.show(view{json: s, names: []string{s.ID}, human: func(p *page) {
				p.line("checkpoint %s of agent %s: %s", s.ID, s.Agent, changedIn(s))
			}})
		})
	}
	return cmd
}

func (a *app) rewindCmd() *cobra.Command {
	var req api.RewindRequest
	cmd := &cobra.Command{
		Use:   "rewind [NAME] [PATH]... [--to WHEN] [--branch] [--dry-run]",
		Short: "Bring an agent's files back to an earlier state",
		Long: `Bring the files of agent NAME, or only PATHs relative to the repository, back to a
checkpoint: the last one, or the one that --to names. WHEN is the ID of a checkpoint or
snapshot, a time such as 5m (the state five minutes ago), "before task 3", "before
merge 12", "before tool Bash" or "before rebase". Files that were made since then are
removed; files that git ignores stay. The branch and the index do not move.

With --branch they do: HEAD, the index, the agent's branch and the other refs of its
own are brought back, too. Refs that it made since stay, and so does its stash; one that
it deleted is not made again. No commit is lost: the checkpoint of the state before
keeps those that the refs had. The branch is not moved while it is in the merge queue,
if it was merged since, in the middle of a merge or rebase of the agent, and if the
agent's rules withhold files.

The state before is saved in a checkpoint first, so that a rewind can be undone. The
agent's processes are frozen meanwhile. If another agent has locked a file that would
change, nothing is changed.

In a sandbox an agent rewinds itself, and NAME is left out. Its rules hold: if they do
not let it write a path that would change, nothing is changed. It can do so every few
seconds, and undo the last 50 of its rewinds.`,
		Example: `  polisctl rewind claude --to "before task 3"
  polisctl rewind claude src --to 10m --dry-run
  polisctl rewind claude --branch --to "before task 3"`,
		Args: a.takesAgent(-1), ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().StringVar(&req.To, "to", "", "`WHEN`: an ID, a time ago, or \"before task N\"")
	_ = cmd.RegisterFlagCompletionFunc("to", a.completeMoments) //nolint:errcheck // the flag exists
	cmd.Flags().BoolVar(&req.Branch, "branch", false, "bring HEAD, the index and the refs back, too; not with PATHs")
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "show what would change, and change nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkText("to", req.To, maxText); err != nil && req.To != "" {
			return err
		}
		return a.callTimeline(cmd, args, longCall, func(ctx context.Context, name string, c timelineCalls) error {
			req.Paths = args
			undo, diff := "polisctl rewind --to ", "polisctl diff --from "
			if name != "" {
				req.Paths, undo, diff = args[1:], "polisctl rewind "+name+" --to ", "polisctl diff "+name+" --from "
			}
			if req.Branch {
				if len(req.Paths) > 0 {
					return usagef("--branch and paths cannot be used together")
				}
				undo = strings.Replace(undo, " --to", " --branch --to", 1)
			}
			p := a.progress("rewinding " + whose(name))
			defer p.done()
			r, err := c.Rewind(ctx, name, req)
			p.done()
			if err != nil {
				return err
			}
			return a.show(restoredView(r, req.DryRun, undo+r.Before, diff))
		})
	}
	return cmd
}

func (a *app) diffTimelineCmd() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "diff NAME --from WHEN [--to WHEN]",
		Short: "Show which of an agent's files differ between two moments",
		Long: `Show which files of agent NAME differ between two moments of its timeline, committed
or not: A is added, D removed, M modified, T of another type, P of another mode or
with other extended attributes. WHEN is as for polisctl rewind: the ID of a checkpoint
or snapshot, a time such as 5m, or "before task 3". Without --to, the files as they are
now are compared.

polisctl agents diff shows what the agent changed since its branch left the target.`,
		Example: `  polisctl diff claude --from "before task 3" --to "before task 4"`,
		Args:    takes(1, 1, "the NAME of an agent"), ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().StringVar(&from, "from", "", "the earlier moment, `WHEN`: an ID, a time ago, or \"before task N\"")
	cmd.Flags().StringVar(&to, "to", "", "the later moment, `WHEN`; now if not given")
	for _, flag := range []string{"from", "to"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, a.completeMoments) //nolint:errcheck // the flag exists
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args[0]); err != nil {
			return err
		}
		if !cmd.Flags().Changed("from") {
			return usagef("polisctl diff needs --from").WithHint("polisctl timeline %s lists the checkpoints; polisctl agents diff %s shows what it changed since the target", args[0], args[0])
		}
		if err := checkText("from", from, maxText); err != nil {
			return err
		}
		if err := checkText("to", to, maxText); err != nil && cmd.Flags().Changed("to") {
			return err
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			d, err := c.DiffTimeline(ctx, args[0], from, to)
			if err != nil {
				return err
			}
			return a.show(changesView(d))
		})
	}
	return cmd
}
