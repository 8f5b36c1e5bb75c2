package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) setupCmd() *cobra.Command {
	var workspace string
	cmd := &cobra.Command{
		Use:   "setup [COMMAND]",
		Short: "Show or make what agents need before they can test",
		Long: `Show what the setup command of each workspace made: the files that every worktree
needs before an agent can test, such as node_modules. [workspace.setup] of
polisd.toml has the command and its input files. polisd runs it in a sandbox, in
the background, when the target branch has other input files; new agents have the
files at once and share them. No agent waits for it, except with
polisctl agents add --wait-setup.`,
		Example: `  polisctl setup
  polisctl setup run --again
  polisctl setup log`,
		Args: takes(0, 0, ""),
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only this `WORKSPACE`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			all, err := c.Setups(ctx, workspace)
			if err != nil {
				return err
			}
			return a.show(setupsView(list(all)))
		})
	}
	cmd.AddCommand(a.setupRunCmd(), a.setupLogCmd())
	return cmd
}

func (a *app) setupRunCmd() *cobra.Command {
	req := api.SetupRequest{}
	cmd := &cobra.Command{
		Use:   "run [--again]",
		Short: "Run the setup command for the target branch now",
		Long: `Run the setup command for the target branch and wait for its end. It continues if
polisctl is interrupted. What was made already is not made again without --again.
Agents keep the files they have; new agents get the latest.`,
		Args: takes(0, 0, ""),
	}
	cmd.Flags().StringVarP(&req.Workspace, "workspace", "w", "", "`WORKSPACE` to set up (default: that of the current directory, or the only one)")
	cmd.Flags().BoolVar(&req.Again, "again", false, "also if the files were made already")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWorkspace(req.Workspace); err != nil {
			return err
		}
		return a.call(cmd, 0, func(ctx context.Context, c *client.Client) error {
			if err := needWorkspace(ctx, c, &req.Workspace); err != nil {
				return err
			}
			p := a.progress("running the setup")
			defer p.done()
			s, err := c.RunSetup(ctx, req, p.step)
			p.done()
			if err != nil {
				return err
			}
			return a.show(view{json: s, names: []string{s.Workspace}, human: func(p *page) { setupPage(p, s) }})
		})
	}
	return cmd
}

func (a *app) setupLogCmd() *cobra.Command {
	var workspace string
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Print the output of the last setup command",
		Args:  takes(0, 0, ""),
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "`WORKSPACE` (default: that of the current directory, or the only one)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			if err := needWorkspace(ctx, c, &workspace); err != nil {
				return err
			}
			l, err := c.SetupLog(ctx, workspace)
			if err != nil {
				return err
			}
			return a.show(view{json: l, names: []string{l.Log}, human: func(p *page) {
				if l.Truncated {
					p.warn("only the end; all of it is in %s", l.Log)
				}
				p.text(strings.TrimSuffix(l.Text, "\n"))
			}})
		})
	}
	return cmd
}

// warnSetup adds a warning to an agent that was to wait for the setup and has none of its files.
func warnSetup(ctx context.Context, c *client.Client, agent *api.Agent) error {
	all, err := c.Setups(ctx, agent.Workspace)
	if err != nil {
		return err
	}
	for _, s := range all {
		has := slices.ContainsFunc(s.Results, func(r api.SetupResult) bool { return slices.Contains(r.Agents, agent.Name) })
		if !has && s.State != api.SetupOff && s.State != api.SetupNoInputs {
			agent.Warnings = append(agent.Warnings, "it starts without the files of the setup command; polisctl setup shows why")
		}
	}
	return nil
}

// needWorkspace replaces an empty name by the workspace of the current directory.
func needWorkspace(ctx context.Context, c *client.Client, name *string) (err error) {
	if *name == "" {
		*name, err = here(ctx, c)
	}
	return err
}

func setupsView(all []api.Setup) view {
	names := make([]string, 0, len(all))
	for _, s := range all {
		names = append(names, s.Workspace)
	}
	return view{json: map[string]any{"setups": all}, names: names, human: func(p *page) {
		if len(all) == 0 {
			p.line("no workspace with git")
		}
		for _, s := range all {
			setupPage(p, s)
		}
	}}
}

// setupStates explain the states.
var setupStates = map[api.SetupState]string{
	api.SetupOff:      "no setup command is configured",
	api.SetupNoInputs: "the target branch has none of the input files",
	api.SetupMissing:  "not made yet",
	api.SetupRunning:  "being made; agents start without",
	api.SetupReady:    "ready; new agents have it",
	api.SetupFailed:   "the command failed; agents start without",
}

func setupPage(p *page, s api.Setup) {
	text, ok := setupStates[s.State]
	if !ok {
		text = string(s.State)
	}
	p.line("workspace %s: %s", s.Workspace, text)
	if s.Run != "" {
		p.line("  command  %s", api.Shorten(s.Run, 100))
		p.line("  inputs   %s", strings.Join(s.Inputs, ", "))
	}
	if s.RunningSince != nil {
		p.line("  running  since %s", p.ago(*s.RunningSince))
	}
	if s.Error != "" && s.FailedAt != nil {
		p.line("  failed   %s ago: %s", p.ago(*s.FailedAt), s.Error)
		p.line("  log      %s", s.Log)
	}
	if len(s.Results) == 0 {
		return
	}
	rows := make([][]cell, 0, len(s.Results))
	for _, r := range s.Results {
		state := cell{}
		switch {
		case r.Damaged != "":
			state = cell{"damaged: " + clean(r.Damaged), red}
		case r.Current:
			state.text = "current"
		}
		agents := strings.Join(r.Agents, ", ")
		rows = append(rows, []cell{{text: r.ID}, {text: p.ago(r.MadeAt)}, {text: (time.Duration(r.Seconds*1000) * time.Millisecond).Round(100 * time.Millisecond).String()},
			{text: fmt.Sprintf("%d MiB", r.Bytes>>20)}, {text: fmt.Sprint(r.Files)}, {text: clean(agents)}, state})
	}
	p.table("", []string{"RESULT", "MADE", "TOOK", "SIZE", "FILES", "AGENTS", "STATE"}, rows)
	for _, r := range s.Results {
		if r.Current && r.Dropped > 0 {
			p.warn("%s that the command wrote are not shared, because git does not ignore them: %s", api.Count(r.Dropped, "name"), strings.Join(r.Drops, ", "))
		}
	}
}
