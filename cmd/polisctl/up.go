package main

import (
	"context"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) upCmd() *cobra.Command {
	var repo, target string
	var adopt, clone bool
	cmd := &cobra.Command{
		Use:   "up [--repo PATH|URL] [--target BRANCH] [WORKSPACE]",
		Short: "Put a repository under polis",
		Long: `Put a repository under polis, or find it if it already is. Running it again
changes nothing. The default of --repo is the current directory. WORKSPACE is the
directory that holds project and .polis; polisd chooses one if it is not given. It
lies in a directory of root's (see in_user_directories in polisd.toml(5)).

Of a URL or a bare repository, the project is a new clone. A bare repository that has
worktrees is cloned only with --clone, or if you confirm it on a terminal: merges reach
the clone, not these worktrees. To work in one of them, give its path.

One polisd serves several repositories: docs/guide/projects.md.`,
		Example: `  polisctl up
  polisctl up --repo https://example.org/project.git /srv/project`,
		Args: takes(0, 1, "one WORKSPACE"),
	}
	cmd.Flags().StringVar(&repo, "repo", ".", "the repository: a directory or a `URL`")
	cmd.Flags().StringVar(&target, "target", "", "the `BRANCH` agents start from and merge into (default: the one checked out)")
	cmd.Flags().BoolVar(&clone, "clone", false, "clone a bare repository also if it has worktrees")
	cmd.Flags().BoolVar(&adopt, "adopt-git", false, "adopt a .git that appeared in a plain directory under polis; agents could write there, so check .git/config and .git/hooks first")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := api.UpRequest{Target: target, AdoptGit: adopt, Clone: clone}
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
			resp, err := a.makeWorkspace(ctx, c, req)
			if err != nil {
				return err
			}
			return a.showUp(resp)
		})
	}
	return cmd
}

// makeWorkspace puts a repository under polis. On a terminal it asks before polisd clones a bare repository that has
// worktrees.
func (a *app) makeWorkspace(ctx context.Context, c *client.Client, req api.UpRequest) (api.UpResponse, error) {
	p := a.progress("preparing the workspace")
	defer p.done()
	resp, err := c.Up(ctx, req, p.step)
	p.done()
	if err == nil || api.AsError(err).Details["bare"] == nil || !isTerminal(a.stdin) || !isTerminal(a.stderr) {
		return resp, err
	}
	if a.confirm(api.AsError(err).Message+". Make a clone?") != nil {
		return resp, err
	}
	req.Clone = true
	again := a.progress("preparing the workspace")
	defer again.done()
	return c.Up(ctx, req, again.step)
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
		if resp.ClonedFrom != "" {
			p.line("  clone of  %s, a bare repository: what is merged reaches it when you push from the project", resp.ClonedFrom)
		}
		for _, warning := range resp.Warnings {
			p.warn("%s", warning)
		}
	}})
}
