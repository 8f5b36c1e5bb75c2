package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// Bounds of ask.
const (
	usualAsk   = time.Hour
	longestAsk = 7 * 24 * time.Hour
	maxAskText = 64 << 10
)

func (a *app) askCmd() *cobra.Command {
	var tool, input string
	cmd := &cobra.Command{
		Use:   "ask [--tool TOOL] [--input JSON | TEXT...] [--timeout DURATION]",
		Short: "In a sandbox: ask a person for a permission and wait",
		Long: `Ask for a permission and wait for the answer. It is for agents, in their sandbox,
and for scripts that they run. The rules of the agent's role ([roles.NAME.tools])
and remembered answers decide first; otherwise a person decides, with polisctl
approvals. The answer does not change what the sandbox allows.

TEXT is the command that a shell would run; with --tool and --input it is the call
of another tool.

The exit status is 0 if it was approved, and 5 if it was denied, or if nobody
answered within --timeout (an hour, at most 7 days).`,
		Example: `  polisctl ask -- git push origin main && git push origin main
  polisctl ask --tool WebFetch --input '{"url":"https://example.com/"}'`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.Flags().StringVar(&tool, "tool", "bash", "the `TOOL` that is to be used")
	cmd.Flags().StringVar(&input, "input", "", "the arguments of the tool, an object in `JSON`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := api.PermissionRequest{Tool: tool}
		if err := checkText("tool", tool, maxText); err != nil {
			return err
		}
		switch {
		case input != "" && len(args) > 0:
			return usagef("--input and TEXT cannot be used together")
		case input != "":
			if err := json.Unmarshal([]byte(input), &req.Input); err != nil {
				return usagef("--input is no object in JSON: %w", err)
			}
		case len(args) == 0:
			return usagef("%s needs a TEXT or --input", cmd.CommandPath())
		default:
			text := strings.Join(args, " ")
			if err := checkText("TEXT", text, maxAskText); err != nil {
				return err
			}
			req.Input = map[string]any{"command": text}
		}
		if _, inside := a.insidePath(); !inside {
			return api.Errorf(api.CodeBadState, "ask is for agents, in their sandbox").WithHint("polisctl approvals list shows what they ask")
		}
		wait := usualAsk
		if a.timeout > 0 {
			wait = max(min(a.timeout, longestAsk), time.Second)
		}
		req.TimeoutSeconds = int(wait / time.Second)
		return a.callInside(cmd, wait+shortCall, func(ctx context.Context, c *client.Inside) error {
			progress := a.progress("waiting for an answer")
			defer progress.done()
			res, err := c.Ask(ctx, req)
			progress.done()
			if err != nil {
				return err
			}
			return a.showPermission(res)
		})
	}
	return cmd
}

// showPermission ends with an error if it is none.
func (a *app) showPermission(res api.PermissionResponse) error {
	if res.Result == api.VerdictApprove {
		return a.show(view{json: res, names: []string{string(res.Result)}, human: func(p *page) {
			if res.Rule != "" {
				p.line("approved by the rule %s", res.Rule)
				return
			}
			p.line("approved")
		}})
	}
	text := "it is denied"
	if res.Reason != "" {
		text += ": " + res.Reason
	}
	e := api.Errorf(api.CodeNotApproved, "%s", text).With("result", res.Result).WithHint("do without it, or ask for something else")
	if res.Result == api.VerdictAbort {
		e = e.WithHint("stop: the task is over")
	}
	if res.ID != "" {
		e = e.With("id", res.ID)
	}
	if res.Rule != "" {
		e = e.With("rule", res.Rule)
	}
	return e
}
