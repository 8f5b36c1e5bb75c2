package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/http/client"
)

func (a *app) sendCmd() *cobra.Command {
	var noEnter bool
	cmd := &cobra.Command{
		Use:   "send NAME TEXT...",
		Short: "Type a line into the program of an agent",
		Long: `Type a text, and Enter, into the terminal or the standard input of the program
that an agent runs, as if you were attached to it. Several words are joined by
spaces; - reads the text from standard input. Words that start with '-' come
after --. The agent must be Running; polisctl run gives a task to one that is
not. The text is recorded with the agent's tasks.

The command succeeds when the program has read the text. If the program does not
read it within five seconds, the command fails, and the text waits in the input of
the program. It also fails if the program ends at once with an exit status that is
not 0. polisctl agents watch shows what the program asks.`,
		Example: `  polisctl send claude "now the same for package store"
  polisctl send claude --no-enter y`,
		Args:              takes(2, -1, "the NAME of an agent and a TEXT"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().BoolVar(&noEnter, "no-enter", false, "do not press Enter after the text")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args[0]); err != nil {
			return err
		}
		text, err := a.text(args[1:])
		if err != nil {
			return err
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			task, err := c.Send(ctx, args[0], api.SendRequest{Text: text, NoEnter: noEnter})
			if err != nil {
				return err
			}
			return a.show(view{json: task, names: []string{task.Agent}, human: func(p *page) {
				p.line("sent to agent %s; see polisctl agents watch -f %s", task.Agent, task.Agent)
			}})
		})
	}
	return cmd
}

func (a *app) broadcastCmd() *cobra.Command {
	var workspace string
	cmd := &cobra.Command{
		Use:   "broadcast TEXT...",
		Short: "Type a line into the program of every running agent",
		Long: `Do the same as polisctl send for every agent that is Running, concurrently, and
show the result for each.`,
		Example: `  polisctl broadcast "commit what you have and stop"`,
		Args:    takes(1, -1, "a TEXT"),
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only the agents of `WORKSPACE`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		text, err := a.text(args)
		if err != nil {
			return err
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			resp, err := c.Broadcast(ctx, api.BroadcastRequest{Text: text, Workspace: workspace})
			if err != nil {
				return err
			}
			return a.showBroadcast(resp)
		})
	}
	return cmd
}

// showBroadcast ends with the first failure, after all have been shown.
func (a *app) showBroadcast(resp api.BroadcastResponse) error {
	resp.Results = list(resp.Results)
	var names []string
	var first error
	for _, r := range resp.Results {
		if r.Error == nil {
			names = append(names, r.Agent)
		} else if first == nil {
			first = r.Error
		}
	}
	err := a.show(view{json: resp, names: names, human: func(p *page) {
		for _, r := range resp.Results {
			if r.Error == nil {
				p.line("sent to agent %s", r.Agent)
			} else {
				p.warn("agent %s: %s", r.Agent, r.Error.Message)
			}
		}
		if len(resp.Results) == 0 {
			p.line("no agent is Running: nothing was sent")
		}
	}})
	if err != nil {
		return err
	}
	return first
}

// text is what words say; - is standard input.
func (a *app) text(words []string) (string, error) {
	text := strings.Join(words, " ")
	if len(words) == 1 && words[0] == "-" {
		b, err := io.ReadAll(io.LimitReader(a.stdin, wire.MaxInput+1))
		if err != nil {
			return "", api.Errorf(api.CodeInternal, "read text: %w", err)
		}
		text = strings.TrimRight(string(b), "\n")
	}
	if strings.TrimSpace(text) == "" {
		return "", usagef("text is empty: there is nothing to send")
	}
	return text, checkText("text", text, wire.MaxInput)
}
