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

approval asks as polisctl ask does, and answers as Claude Code wants it. Whatever goes
wrong is a denial.`,
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
