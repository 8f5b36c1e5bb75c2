package main

import (
	"context"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/client"
)

func (a *app) upCmd() *cobra.Command {
	var repo, target string
	var adopt bool
	cmd := &cobra.Command{
		Use:   "up [--repo PATH|URL] [--target BRANCH] [WORKSPACE]",
		Short: "Put a repository under polis",
		Long: `Put a repository under polis, or find it if it already is. Running it again
changes nothing. The default of --repo is the current directory. WORKSPACE is the
directory that holds project and .polis; polisd chooses one if it is not given. It
lies in a directory of root's (see in_user_directories in polisd.toml(5)).`,
		Example: `  polisctl up
  polisctl up --repo https://example.org/project.git /srv/project`,
		Args: takes(0, 1, "one WORKSPACE"),
	}
	cmd.Flags().StringVar(&repo, "repo", ".", "the repository: a directory or a `URL`")
	cmd.Flags().StringVar(&target, "target", "", "the `BRANCH` agents start from and merge into (default: the one checked out)")
	cmd.Flags().BoolVar(&adopt, "adopt-git", false, "adopt a .git that appeared in a plain directory under polis; agents could write there, so check .git/config and .git/hooks first")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := api.UpRequest{Target: target, AdoptGit: adopt}
		var err error
		if req.Repo, err = repository(repo); err != nil {
			return err
		}
		if len(args) > 0 {
			if req.Path, err = absolute("WORKSPACE", args[0]); err != nil {
				return err
			}
		}
		if cmd.Flags().Changed("target") {
			if err := checkWord("target", target, maxBranch); err != nil {
				return err
			}
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			p := a.progress("preparing the workspace")
			defer p.done()
			resp, err := c.Up(ctx, req, p.step)
			p.done()
			if err != nil {
				return err
			}
			return a.showUp(resp)
		})
	}
	return cmd
}

func (a *app) showUp(resp api.UpResponse) error {
	w := resp.Workspace
	return a.show(view{json: resp, names: []string{w.Name}, human: func(p *page) {
		if resp.Created {
			p.line("workspace %s is ready", w.Name)
		} else {
			p.line("workspace %s was already there, with %s", w.Name, api.Count(w.Agents, "agent"))
		}
		p.line("  path      %s", w.Path)
		p.line("  project   %s", w.Project)
		if w.Git {
			p.line("  target    %s", w.TargetBranch)
		} else {
			p.line("  target    none: the project is not a git repository")
		}
		for _, warning := range resp.Warnings {
			p.warn("%s", warning)
		}
	}})
}
