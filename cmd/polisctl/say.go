package main

import (
	"context"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) sayCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "say NAME TEXT...",
		Short: "Say something to an agent, whatever it does",
		Long: `Say a text to an agent, also while it works. Several words are joined by spaces;
- reads the text from standard input. Words that start with '-' come after --.

The text is delivered once, in the first of these ways that is possible, and the
command prints which one it is:

An interactive program, which is no task, gets it typed, and Enter, as by polisctl send.

If no task runs, it is a task: the agent is started if it is down.

Claude Code gets it with the result of its next tool call, a program that is driven by
ACP as the next prompt of its session.

Otherwise, and if the present task ends before that, it is queued as the next task,
before those that wait already, and continues the conversation of the present task if
the agent's program can (--continue of polisctl run).

It is recorded with your user among the agent's tasks (polisctl tasks NAME), and
polisctl tasks cancel ID drops it while it waits. It has at most 64 KiB, without
control characters other than line breaks and tabs; 20 can wait for an agent.`,
		Example: `  polisctl say claude "use the store package for this, not the file system"
  polisctl say claude - < review.md`,
		Args:              takes(2, -1, "the NAME of an agent and a TEXT"),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkAgents(args[0]); err != nil {
				return err
			}
			text, err := a.text(args[1:])
			if err != nil {
				return err
			}
			return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
				p := a.progress("saying it to agent " + args[0])
				defer p.done()
				res, err := c.Say(ctx, args[0], api.SayRequest{Text: text})
				p.done()
				if err != nil {
					return err
				}
				return a.show(view{json: res, names: []string{res.Task.Agent}, human: func(p *page) { p.line("%s", res.Message) }})
			})
		},
	}
}
