package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/client"
)

func (a *app) mergeCmd() *cobra.Command {
	var req api.MergeRequest
	cmd := &cobra.Command{
		Use:   "merge NAME [--dry-run] [-m MESSAGE]",
		Short: "Merge an agent's branch into the target branch",
		Long: `Merge what an agent committed into the target branch, always with a merge commit.
If branches conflict nothing changes and the paths are named. --dry-run only says
what would happen.`,
		Args:              takes(1, 1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().StringVarP(&req.Message, "message", "m", "", "the merge commit's `MESSAGE`")
	cmd.Flags().BoolVarP(&req.DryRun, "dry-run", "n", false, "change nothing")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args[0]); err != nil {
			return err
		}
		if cmd.Flags().Changed("message") {
			if err := checkText("message", req.Message, 64<<10); err != nil {
				return err
			}
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			p := a.progress("merging agent " + args[0])
			defer p.done()
			resp, err := c.Merge(ctx, args[0], req)
			p.done()
			if err != nil {
				return err
			}
			return a.showMerge(resp)
		})
	}
	return cmd
}

func (a *app) showMerge(r api.MergeResponse) error {
	name := r.MergeCommitSHA
	if name == "" {
		name = r.Branch
	}
	return a.show(view{json: r, names: []string{name}, human: func(p *page) {
		if r.DryRun {
			p.line("%s would merge into %s without conflict", r.Branch, r.Target)
		} else {
			p.line("%s is merged into %s as %s", r.Branch, r.Target, short(r.MergeCommitSHA))
		}
		if len(r.Paths) > 0 {
			p.line("  %s", plural(len(r.Paths), "path"))
			for _, path := range r.Paths {
				p.line("    %s", clean(path))
			}
		}
		if r.Project != "" {
			p.line("  project: %s", r.Project)
		}
		if r.Note != "" {
			p.warn("%s", r.Note)
		}
	}})
}

func short(sha string) string { return sha[:min(len(sha), 12)] }

func (a *app) discardCmd() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "discard NAME [--yes]",
		Short: "Remove an agent and its branch; the work is put aside first",
		Long: `Remove an agent and its branch without merging. The work is put aside first, where
it can be restored from. Asks before, unless --yes is given.`,
		Args:              takes(1, 1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args[0]); err != nil {
			return err
		}
		if !yes {
			if err := a.confirm("discard agent " + args[0] + " and its branch?"); err != nil {
				return err
			}
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			p := a.progress("discarding agent " + args[0])
			defer p.done()
			resp, err := c.Discard(ctx, args[0])
			p.done()
			if err != nil {
				return err
			}
			return a.showRemoved(true, []api.RemoveResponse{resp}, nil)
		})
	}
	return cmd
}

// confirm asks a question on the terminal; without one it refuses.
func (a *app) confirm(question string) error {
	if !isTerminal(a.stdin) || !isTerminal(a.stderr) {
		return usagef("%s Nobody can be asked here", question).WithHint("say --yes")
	}
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.stderr)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return api.Errorf(api.CodeInternal, "not confirmed; nothing was done")
}
