package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) revertCmd() *cobra.Command {
	var req api.RevertRequest
	var yes bool
	cmd := &cobra.Command{
		Use:   "revert NAME [--dry-run] [--yes]",
		Short: "Revert an agent's merge by a new commit",
		Long: `Revert an agent's last merge by a new commit on the target branch, as git
revert -m 1 does. Later merges stay; their number is shown first, and on a
terminal you confirm. If they build on the reverted merge, nothing changes and
the paths are named. A second revert changes nothing. The agent keeps its branch;
later commits can be merged, and the reverted ones stay reverted.`,
		Args:              takes(1, 1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().BoolVarP(&req.DryRun, "dry-run", "n", false, "change nothing")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args[0]); err != nil {
			return err
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			if !yes && !req.DryRun && isTerminal(a.stdin) && isTerminal(a.stderr) {
				dry, err := c.Revert(ctx, args[0], api.RevertRequest{DryRun: true})
				if err != nil {
					return err
				}
				if dry.Later > 0 {
					if err := a.confirm(dry.Warning + ". Take " + short(dry.MergeCommitSHA) + " back?"); err != nil {
						return err
					}
				}
			}
			resp, err := c.Revert(ctx, args[0], req)
			if err != nil {
				return err
			}
			return a.showRevert(resp)
		})
	}
	return cmd
}

func (a *app) showRevert(r api.RevertResponse) error {
	return a.show(view{json: r, names: []string{r.RevertCommitSHA}, human: func(p *page) {
		switch {
		case r.Already:
			p.line("the merge of agent %s is reverted already", r.Agent)
		case r.DryRun:
			p.line("%s can be reverted in %s", short(r.MergeCommitSHA), clean(r.Target))
		default:
			p.line("%s is reverted in %s by %s", short(r.MergeCommitSHA), clean(r.Target), short(r.RevertCommitSHA))
		}
		for _, path := range r.Paths {
			p.line("    %s", clean(path))
		}
		if r.Project != "" {
			p.line("  project: %s", r.Project)
		}
		for _, w := range []string{r.Warning, r.Note} {
			if w != "" {
				p.warn("%s", w)
			}
		}
	}})
}

func (a *app) restoreCmd() *cobra.Command {
	var req api.RestoreRequest
	cmd := &cobra.Command{
		Use:   "restore NAME [--ref REF] [--as NAME] [--branch BRANCH]",
		Short: "Restore a removed or discarded agent",
		Long: `Restore a removed or discarded agent as it was: type, role, rules, branch,
index, and every saved file. The work stays in the trash, so it can be restored
again, under other names with --as and --branch. polisctl gc --dry-run lists the
trash.`,
		Args: takes(1, 1, "the NAME the agent had"),
	}
	cmd.Flags().StringVar(&req.Ref, "ref", "", "restore this `REF` below refs/polis/trash/, not the newest")
	cmd.Flags().StringVar(&req.As, "as", "", "give the agent this `NAME`")
	cmd.Flags().StringVarP(&req.Branch, "branch", "b", "", "give it this `BRANCH`")
	cmd.Flags().StringVarP(&req.Workspace, "workspace", "w", "", "the `WORKSPACE` of the removed agent")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		names := args
		if req.As != "" {
			names = append(names, req.As)
		}
		if err := checkAgents(names...); err != nil {
			return err
		}
		if err := checkWorkspace(req.Workspace); err != nil {
			return err
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			p := a.progress("restoring agent " + args[0])
			defer p.done()
			g, err := c.Restore(ctx, args[0], req)
			p.done()
			if err != nil {
				return err
			}
			return a.show(view{json: tidy(g), names: []string{g.Name}, human: func(p *page) { p.line("agent %s is back on branch %s", g.Name, clean(g.Branch)) }})
		})
	}
	return cmd
}

func (a *app) rebaseCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rebase NAME",
		Short: "Merge the target branch into an agent's branch",
		Long: `Merge the target branch into an agent's branch, in its worktree and inside its
sandbox, with its own git configuration and hooks. A conflict stays in the worktree
for the agent to resolve, and ends this command with status 4. The agent's commits are not changed.`,
		Args:              takes(1, 1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args[0]); err != nil {
			return err
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			r, err := c.Rebase(ctx, args[0])
			if err != nil {
				return err
			}
			return a.show(view{json: r, names: []string{r.Head}, human: func(p *page) { p.line("%s has all of %s now, at %s", clean(r.Branch), clean(r.Target), short(r.Head)) }})
		})
	}
	return cmd
}

func (a *app) diffCmd() *cobra.Command {
	var req api.DiffRequest
	cmd := &cobra.Command{
		Use:   "diff NAME [--stat|--name-only] [--committed]",
		Short: "Show what an agent changed",
		Long: `Show what an agent changed since its branch left the target, as a patch: its
commits and its uncommitted changes, including new files.`,
		Args:              takes(1, 1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().BoolVar(&req.Stat, "stat", false, "show the number of changed lines of each file")
	cmd.Flags().BoolVar(&req.NameOnly, "name-only", false, "show the names of the changed files only")
	cmd.Flags().BoolVar(&req.Committed, "committed", false, "show committed changes only")
	cmd.MarkFlagsMutuallyExclusive("stat", "name-only")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args[0]); err != nil {
			return err
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			r, err := c.Diff(ctx, args[0], req)
			if err != nil {
				return err
			}
			defer r.Close()
			if !a.json {
				if err := a.patch(r); err != nil {
					return api.Errorf(api.CodeUnavailable, "the patch was cut short: %w", err)
				}
				return nil
			}
			var text strings.Builder
			if _, err := io.Copy(&text, r); err != nil {
				return api.Errorf(api.CodeUnavailable, "the patch was cut short: %w", err)
			}
			return a.show(view{json: map[string]string{"agent": args[0], "diff": text.String()}})
		})
	}
	return cmd
}

// patch prints a patch: exactly, unless it is for a person.
func (a *app) patch(r io.Reader) error {
	if isTerminal(a.stdout) {
		return copyEscaped(a.stdout, r)
	}
	_, err := io.Copy(a.stdout, r)
	return err
}

func (a *app) gcCmd() *cobra.Command {
	var req api.GCRequest
	var before string
	cmd := &cobra.Command{
		Use:   "gc [--dry-run] [--before AGE]",
		Short: "Delete old saved work",
		Long: `Delete permanently the work in the trash that is older than trash.ttl of polisd.toml
(30 days), or than --before. --dry-run only lists that work, with its size on
the disk, and the work that is kept.`,
		Args: takes(0, 0, ""),
	}
	cmd.Flags().BoolVarP(&req.DryRun, "dry-run", "n", false, "delete nothing")
	cmd.Flags().StringVar(&before, "before", "", "remove work that is older than `AGE`, such as 3d or 12h")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("before") {
			age, err := parseAge(before)
			if err != nil {
				return err
			}
			req.BeforeSeconds = int64(age / time.Second)
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			resp, err := c.GC(ctx, req)
			if err != nil {
				return err
			}
			resp.Removed, resp.Kept = list(resp.Removed), list(resp.Kept)
			return a.show(gcView(resp))
		})
	}
	return cmd
}

func gcView(r api.GCResponse) view {
	var names []string
	var sum int64
	for _, e := range r.Removed {
		names = append(names, e.Ref+e.Path)
		sum += e.Bytes
	}
	return view{json: r, names: names, human: func(p *page) {
		rows := func(es []api.TrashEntry) [][]cell {
			var out [][]cell
			for _, e := range es {
				out = append(out, []cell{{text: e.Agent}, {text: e.Workspace}, {text: p.ago(e.Time)}, {text: bytesText(e.Bytes)}, {text: clean(e.Ref + e.Path)}})
			}
			return out
		}
		head := []string{"AGENT", "WORKSPACE", "AGE", "SIZE", "WHERE"}
		if r.DryRun {
			p.line("to be deleted: %s, %s", api.Count(len(r.Removed), "item"), bytesText(sum))
		} else {
			p.line("deleted: %s, %s", api.Count(len(r.Removed), "item"), bytesText(sum))
		}
		p.table("nothing is old enough", head, rows(r.Removed))
		if len(r.Kept) > 0 {
			p.line("")
			p.line("kept: polisctl restore NAME --ref REF")
			p.table("", head, rows(r.Kept))
		}
	}}
}

func bytesText(n int64) string {
	if n == 0 {
		return "0"
	}
	return size(n)
}

// parseAge reads a duration that may be in days.
func parseAge(s string) (time.Duration, error) {
	text := s
	var days int
	if d, ok := strings.CutSuffix(s, "d"); ok {
		if _, err := fmt.Sscanf(d, "%d", &days); err == nil && fmt.Sprint(days) == d {
			text = fmt.Sprintf("%dh", 24*days)
		}
	}
	age, err := time.ParseDuration(text)
	if err != nil || age < time.Second || age > 10*365*24*time.Hour {
		return 0, usagef("age %q is not valid: a time such as 3d or 12h, from 1s to 3650d", clean(s))
	}
	return age, nil
}
