package main

import (
	"context"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) workspaceCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "workspace", Short: "Record where the project of a workspace was moved"}
	cmd.AddCommand(a.workspaceMoveCmd())
	return cmd
}

func (a *app) workspaceMoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "move WORKSPACE PATH",
		Short: "Record another directory as the project of a workspace",
		Long: `polis records the directory, the .git and the owner of a project when a workspace is
made, and compares them at each use. If the directory was moved, restored from a backup or
cloned again, polis refuses to work in it (PROJECT_CHANGED) until this command records the
new one. PATH must belong to the same user, and must be the same repository: it has the
first commit of the target branch. The agents of the workspace must be stopped.`,
		Example: `  polisctl workspace move project ~/src/project`,
		Args:    takes(2, 2, "one WORKSPACE and one PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkWorkspace(args[0]); err != nil {
				return err
			}
			path, err := absolute("PATH", args[1])
			if err != nil {
				return err
			}
			return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
				w, err := c.MoveWorkspace(ctx, args[0], api.MoveRequest{Path: path})
				if err != nil {
					return err
				}
				return a.show(view{json: w, names: []string{w.Name}, human: func(p *page) {
					p.line("workspace %s: its project is %s", w.Name, w.Project)
				}})
			})
		},
	}
}
