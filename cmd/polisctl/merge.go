package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) mergeCmd() *cobra.Command {
	var req api.MergeRequest
	var all, sign bool
	var workspace string
	cmd := &cobra.Command{
		Use:   "merge NAME|--all [--dry-run] [--no-check] [--accept-protected] [--sign] [--remove-after] [--head COMMIT] [-m MESSAGE]",
		Short: "Merge an agent's branch into the target branch",
		Long: `Merge what an agent committed into the target branch, always with a merge commit.
The branch enters the merge queue, before the branches of tasks, and this command waits.
If branches conflict, or the check command fails on the result, nothing changes
and the paths, or the log, are named. --dry-run only shows what would happen;
it runs no check. --all merges every agent that has something to merge.

Every path that the merge changes is compared with the agent's rules: one that the
agent may not write is refused (UNDECLARED_WRITE). Paths of merge.protected
(polisd.toml(5)), submodules, and links out of the repository are merged only with
--accept-protected (PROTECTED_PATH); review them first: --dry-run marks them, and prints
the commit for --head. With --head, a branch that has moved since is refused.

With --sign, your git signs the merge commit, with your identity and your key, as your
git configuration and that of the project set them (user.signingKey, gpg.format). Run it
as the owner of the project. With merge.sign in polisd.toml, every other merge is refused
(SIGNATURE_REQUIRED).`,
		Args:              takes(0, 1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().StringVarP(&req.Message, "message", "m", "", "the merge commit's `MESSAGE`")
	cmd.Flags().BoolVarP(&req.DryRun, "dry-run", "n", false, "change nothing")
	cmd.Flags().BoolVar(&req.NoCheck, "no-check", false, "merge without the check command")
	cmd.Flags().BoolVar(&req.AcceptProtected, "accept-protected", false, "also merge changes of protected paths")
	cmd.Flags().BoolVar(&req.RemoveAfter, "remove-after", false, "remove the agent when it is merged, unless it has other work")
	cmd.Flags().StringVar(&req.Head, "head", "", "merge only if the branch is at `COMMIT`, as --dry-run prints it")
	cmd.Flags().BoolVar(&all, "all", false, "merge every agent")
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "with --all: only those of this `WORKSPACE`")
	cmd.Flags().BoolVarP(&sign, "sign", "S", false, "sign the merge commit with your key")
	cmd.MarkFlagsMutuallyExclusive("head", "all")
	cmd.MarkFlagsMutuallyExclusive("sign", "all")
	cmd.MarkFlagsMutuallyExclusive("sign", "dry-run")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (len(args) == 0) != all || workspace != "" && !all {
			return usagef("%s needs the NAME of an agent, or --all", cmd.CommandPath())
		}
		if err := errors.Join(checkAgents(args...), checkWorkspace(workspace)); err != nil {
			return err
		}
		if cmd.Flags().Changed("message") {
			if err := checkText("message", req.Message, 64<<10); err != nil {
				return err
			}
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			if all {
				return a.mergeAll(ctx, c, req, workspace)
			}
			p := a.progress("merging agent " + args[0])
			defer p.done()
			merge := c.Merge
			if sign {
				p.done() // programs that ask for a passphrase use the terminal
				merge = func(ctx context.Context, name string, req api.MergeRequest) (api.MergeResponse, error) {
					return a.mergeSigned(ctx, c, name, req)
				}
			}
			resp, err := merge(ctx, args[0], req)
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
		p.line("%s", mergedLine(r))
		if len(r.Paths) > 0 {
			p.line("  %s", api.Count(len(r.Paths), "path"))
			reasons := map[string]string{}
			for _, f := range r.Protected {
				reasons[f.Path] = f.Reason
			}
			for _, path := range r.Paths {
				if why := reasons[path]; why != "" {
					p.line("    %s  (%s)", clean(path), clean(why))
				} else {
					p.line("    %s", clean(path))
				}
			}
		}
		if r.Project != "" {
			p.line("  project: %s", r.Project)
		}
		if r.DryRun && r.Head != "" {
			p.line("  head: %s", r.Head)
		}
		if r.Removed {
			p.line("  agent %s was removed", r.Agent)
		}
		if n := len(r.Protected); n > 0 && r.DryRun {
			p.warn("%s: only merge --accept-protected merges them", api.Count(n, "protected path"))
		}
		if r.Note != "" {
			p.warn("%s", r.Note)
		}
		for _, b := range r.Elsewhere {
			p.warn("%s", clean(b.Text()))
		}
	}})
}

func short(sha string) string { return sha[:min(len(sha), 12)] }

func (a *app) discardCmd() *cobra.Command {
	var yes, ignored bool
	cmd := &cobra.Command{
		Use:   "discard NAME [--yes] [--ignored]",
		Short: "Remove an agent and its branch; the work is saved in the trash first",
		Long: `Remove an agent and its branch without merging. The work is saved in the trash first;
polisctl restore restores it. You must confirm, unless --yes is given.`,
		Args:              takes(1, 1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().BoolVar(&ignored, "ignored", false, "save ignored files as well")
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
			resp, err := c.Discard(ctx, args[0], ignored)
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
		return usagef("%s This is not a terminal", question).WithHint("use --yes")
	}
	fmt.Fprintf(a.stderr, "%s [y/N] ", cleanText(question))
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
