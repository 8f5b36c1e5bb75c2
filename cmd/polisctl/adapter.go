package main

import (
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"polis/daemon/api"
)

// adapterProgram speaks the protocols of agents' programs; see its doc.go for why it is not part of
// polisctl.
const adapterProgram = "polis-adapter"

func (a *app) mcpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "mcp",
		Short: "In a sandbox: be an MCP server for the agent's program",
		Long: `Serve MCP (the Model Context Protocol) on standard input and output, for the agent's
program. Its tools are status_update, task_complete, why, wait, lock, unlock and, for
programs that have no hook, approval:

  claude mcp add polis -- polisctl mcp
  claude -p --permission-prompt-tool mcp__polis__approval ...

approval opens a question as polisctl ask does, and answers in the form of Claude Code.
Every failure is a denial.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.adapter(cmd, "mcp") },
	}
}

// adapter replaces polisctl with the program that speaks an agent's protocol.
func (a *app) adapter(cmd *cobra.Command, args ...string) error {
	if _, inside := a.insidePath(); !inside {
		return api.Errorf(api.CodeBadState, "%s is for agents, in their sandbox", cmd.Name()).WithHint("polisctl agents shell NAME opens one")
	}
	path, err := findBeside(adapterProgram)
	if err != nil {
		return err
	}
	return api.Errorf(api.CodeInternal, "start %s: %w", path, syscall.Exec(path, append([]string{adapterProgram}, args...), os.Environ()))
}

func (a *app) acpCmd() *cobra.Command {
	var prompt, model string
	cmd := &cobra.Command{
		Use:   "acp --prompt TEXT [--model MODEL] -- CMD...",
		Short: "In a sandbox: give a task to a program that speaks ACP",
		Long: `Start CMD, a program that speaks ACP (the Agent Client Protocol) on its standard input
and output, give it TEXT as its prompt, and wait until its turn has ended. The updates of
the session are printed as lines of JSON. A permission that it requests is a question, as by
polisctl ask; a question that cannot be decided is rejected.

polis runs a task so if the base type has acp. The exit status is 0 if the turn ended by
itself, 127 if CMD cannot be started, and 1 otherwise.`,
		Example: `  polisctl acp --prompt "make the tests pass" -- gemini --experimental-acp`,
		Args:    takes(1, -1, "the command of an ACP agent, after --"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkText("prompt", prompt, maxPrompt-1); err != nil {
				return err
			}
			return a.adapter(cmd, append([]string{"acp", "--prompt", prompt, "--model", model, "--"}, args...)...)
		},
	}
	cmd.Flags().StringVar(&prompt, "prompt", "", "the task, a `TEXT`")
	cmd.Flags().StringVar(&model, "model", "", "the `MODEL` that the session uses (default the program's)")
	return cmd
}
