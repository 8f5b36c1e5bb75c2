package main

import (
	"context"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) forkCmd() *cobra.Command {
	var req api.ForkRequest
	var memory string
	var limits limitFlags
	var egress []string
	cmd := &cobra.Command{
		Use:   "fork NAME NEW [OPTION]...",
		Short: "Add an agent that begins with the work of another one",
		Long: `Add the agent NEW with the present work of agent NAME: its commit, its index,
and its files, including changed and untracked ones. NEW gets a branch of its own from
that commit, and the base type, the role, the rules and the limits of NAME; options
can narrow these. NEW is Idle: nothing runs in it. NAME is unchanged and continues.

The processes of NAME are frozen while its files are saved, so that NEW has a
consistent copy, with the repositories inside the worktree, such as those of
submodules. Not copied are: ignored files (without --ignored), a stash, an unfinished
merge or rebase, permissions beside the executable bit, empty directories, and files
that are too large for git, which are listed. Paths that are exclusive to NAME stay so.`,
		Example: `  polisctl agents fork claude claude-2 && polisctl run claude-2 "try it with a trie"`,
		Args:    takes(2, 2, "the NAME of an agent and of the NEW one"), ValidArgsFunction: a.completeAgents,
	}
	flags := cmd.Flags()
	flags.StringVar(&req.Branch, "branch", "", "`BRANCH` of the new agent (default agent/NEW)")
	flags.BoolVar(&req.Ignored, "ignored", false, "copy ignored files, too")
	flags.StringVarP(&memory, "memory", "m", "", "memory limit in `MB`, or as in 2GB: at most that of NAME (default the same)")
	limits.register(cmd)
	flags.StringSliceVar(&egress, "egress", nil, "let it reach only `WHERE`, of what NAME reaches; see polisctl agents add (default the same)")
	flags.BoolVar(&req.Ephemeral, "ephemeral", false, "the agent exists for its work only: the patrol may remove it once the work has ended and is kept elsewhere")
	flags.BoolVarP(&req.Force, "force", "f", false, "fork the agent even if the machine has no room for the new one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args...); err != nil {
			return err
		}
		req.Name = args[1]
		if req.Branch != "" {
			if err := checkWord("branch", req.Branch, maxBranch); err != nil {
				return err
			}
		}
		var err error
		if req.MemoryMB, err = parseMemory(memory); err != nil {
			return err
		}
		if req.Limits, _, err = limits.parse(); err != nil {
			return err
		}
		if req.Egress, err = egressWords(egress); err != nil {
			return err
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			p := a.progress("forking agent " + args[0])
			defer p.done()
			res, err := c.Fork(ctx, args[0], req)
			p.done()
			if err != nil {
				return err
			}
			res.Agent, res.LeftOut = tidy(res.Agent), list(res.LeftOut)
			return a.show(view{json: res, names: []string{res.Agent.Name}, human: func(p *page) {
				p.line("agent %s was forked from %s on branch %s", res.Agent.Name, res.From, res.Agent.Branch)
				for _, path := range res.LeftOut {
					p.warn("not copied: %s", clean(path))
				}
			}})
		})
	}
	return cmd
}
