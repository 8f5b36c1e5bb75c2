package main

import (
	"context"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) downCmd() *cobra.Command {
	var req api.DownRequest
	cmd := &cobra.Command{
		Use:   "down [WORKSPACE] [--force] [--ignored]",
		Short: "Remove a repository from polis; all work is saved in the trash first",
		Long: `Remove every agent of a workspace, and the workspace from polis' list. Without
--force nothing is removed if any agent runs or has work that is nowhere else;
with it, that work is saved in the trash first. The project and the workspace's
directory stay as they are: polisctl up and polisctl restore restore it all. WORKSPACE
is a name that polisctl status shows, or a path; the default is the workspace of the
current directory. A workspace whose directory does not exist is removed from the list;
one whose directory cannot be reached stays listed.`,
		Example: `  polisctl down
  polisctl down --force project`,
		Args: takes(0, 1, "one WORKSPACE"),
	}
	cmd.Flags().BoolVarP(&req.Force, "force", "f", false, "also if agents run or have unsaved work")
	cmd.Flags().BoolVar(&req.Ignored, "ignored", false, "save ignored files as well")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := ""
		if len(args) > 0 {
			name = args[0]
			if err := checkWorkspace(name); err != nil {
				return err
			}
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			p := a.progress("taking the workspace away")
			defer p.done()
			found, missing := workspaceNamed(ctx, c, name)
			switch {
			case api.CodeOf(missing) == api.CodeWorkspaceNotFound && name != "":
				found = name // polisd may know it, and not have been able to open it
			case missing != nil:
				return missing
			}
			resp, err := c.Down(ctx, found, req)
			p.done()
			if missing != nil && api.CodeOf(err) == api.CodeWorkspaceNotFound {
				return missing
			}
			if err != nil {
				return err
			}
			return a.showDown(resp)
		})
	}
	return cmd
}

// workspaceNamed returns the name of a workspace given by name, by path or by the current directory.
func workspaceNamed(ctx context.Context, c *client.Client, given string) (string, error) {
	workspaces, err := c.Workspaces(ctx)
	if err != nil {
		return "", err
	}
	if given == "" {
		if given, err = here(ctx, c); err != nil || given != "" {
			return given, err
		}
		if len(workspaces) != 1 {
			return "", usagef("%s: say which one", api.Count(len(workspaces), "workspace")).WithHint("polisctl status lists them")
		}
		return workspaces[0].Name, nil
	}
	for _, w := range workspaces {
		if w.Name == given {
			return given, nil
		}
	}
	path, err := absolute("WORKSPACE", given)
	if err != nil {
		return "", err
	}
	for _, w := range workspaces {
		for _, top := range append(tops(w.Project), tops(w.Path)...) {
			if path == top || resolved(path) == top {
				return w.Name, nil
			}
		}
	}
	return "", api.Errorf(api.CodeWorkspaceNotFound, "there is no workspace %s", clean(given)).WithHint("polisctl status lists them")
}

func (a *app) showDown(resp api.DownResponse) error {
	resp.Removed = list(resp.Removed)
	return a.show(view{json: resp, names: []string{resp.Workspace}, human: func(p *page) {
		for _, r := range resp.Removed {
			p.line("agent %s is removed", r.Name)
			if r.Trash != "" {
				p.line("  its work is kept at %s", r.Trash)
			}
		}
		if resp.Gone {
			p.line("workspace %s is forgotten; its directory %s was gone", resp.Workspace, clean(resp.Path))
			return
		}
		p.line("workspace %s is not under polis any more; %s stays", resp.Workspace, clean(resp.Path))
	}})
}
