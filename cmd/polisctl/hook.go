package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
	"polis/daemon/rules/hook"
)

// hookWait is how long a hook waits for an answer.
const hookWait = time.Hour

func (a *app) hookCmd() *cobra.Command {
	var said bool
	cmd := &cobra.Command{
		Use:   "hook claude|codex|gemini|qwen|copilot",
		Short: "In a sandbox: decide about a tool of an agent's program",
		Long: `Read a call of a tool from standard input and print the decision, as the program's
hooks want it: PreToolUse and PermissionRequest of Claude Code, Codex and Qwen Code,
BeforeTool of Gemini CLI, preToolUse of Copilot CLI. polis installs it as managed
configuration for agents whose role has [roles.NAME.tools]; see docs/approvals.md.

On every failure the exit status is 2, which stops the tool.

With --said, instead, note that the call has ended, and print what a person has said to
the agent by polisctl say, as PostToolUse of Claude Code, Codex and Qwen Code wants it;
nothing if there is nothing, or on a failure.`,
		Args:              takes(1, 1, "the name of a program"),
		ValidArgsFunction: completeWords(strings.Split(hook.Names(), ", ")...),
		RunE: func(cmd *cobra.Command, args []string) error {
			if said {
				return a.hookSaid(cmd, args[0])
			}
			out, err := a.hook(cmd, args[0])
			if err == nil {
				err = a.write(out)
			}
			if err != nil {
				_, _ = a.stderr.WriteString("polis: " + clean(api.AsError(err).Message) + "\n") // the exit status reports it, too
				return childStatus(hook.Blocks)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&said, "said", false, "print what a person has said to the agent")
	return cmd
}

func (a *app) hook(cmd *cobra.Command, name string) ([]byte, error) {
	program, ok := hook.ByName(name)
	if !ok {
		return nil, usagef("there is no hook for %q", clean(name)).WithHint("there are hooks for %s", hook.Names())
	}
	b, err := io.ReadAll(io.LimitReader(a.stdin, hook.MaxInput+1))
	if err != nil {
		return nil, api.Errorf(api.CodeInternal, "read standard input: %w", err)
	}
	call, err := program.Parse(b)
	if err != nil {
		return nil, err
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, hookWait+shortCall)
	defer cancel()
	// Always the sandbox's own socket: a variable must not lead to another.
	c := client.NewInside(client.InsideSocket)
	defer c.Close()
	res, err := c.Ask(ctx, api.PermissionRequest{Tool: call.Tool, Input: call.Input, TimeoutSeconds: int(hookWait / time.Second)})
	if err != nil {
		return nil, err
	}
	return program.Answer(call, res)
}
