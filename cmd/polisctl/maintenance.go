package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) maintenanceCmd() *cobra.Command {
	var now, dryRun bool
	var workspace string
	cmd := &cobra.Command{
		Use:   "maintenance [--now] [--dry-run]",
		Short: "Show or do maintenance of the shared repositories",
		Long: `Show when the shared repository of each workspace was last maintained, what that
did, and when it is due again; with --now, do it. polisd does it by itself, once
in [maintenance] interval, while no git has a lock.

Maintenance packs loose objects and refs, joins small packs, writes the
commit-graph, and removes loose objects that nothing needs and that have not been
written for [maintenance] grace. What an index, a reflog, a stash, a rebase in
progress or the trash needs is kept. Agents continue meanwhile.`,
		Args: takes(0, 0, ""),
	}
	cmd.Flags().BoolVar(&now, "now", false, "run maintenance of one workspace now")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be removed, and change nothing")
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only this `WORKSPACE`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		if !now && !dryRun {
			return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
				all, err := c.Maintenance(ctx, workspace)
				if err != nil {
					return err
				}
				return a.show(maintenanceView(list(all)))
			})
		}
		return a.call(cmd, 0, func(ctx context.Context, c *client.Client) error {
			req := api.MaintenanceRequest{Workspace: workspace, DryRun: dryRun}
			if req.Workspace == "" {
				var err error
				if req.Workspace, err = here(ctx, c); err != nil {
					return err
				}
			}
			p := a.progress("maintaining the repository")
			defer p.done()
			rep, err := c.Maintain(ctx, req, p.step)
			p.done()
			if err != nil {
				return err
			}
			return a.show(view{json: rep, names: []string{rep.Workspace}, human: func(p *page) { maintainedPage(p, rep) }})
		})
	}
	return cmd
}

func maintenanceView(all []api.MaintenanceReport) view {
	var names []string
	for _, r := range all {
		names = append(names, r.Workspace)
	}
	return view{json: map[string]any{"maintenance": all}, names: names, human: func(p *page) {
		rows := make([][]cell, 0, len(all))
		for _, r := range all {
			last, next := "never", "never by itself"
			if !r.StartedAt.IsZero() {
				last = p.ago(r.StartedAt)
			}
			if !r.Next.IsZero() {
				next = r.Next.Local().Format(time.DateTime)
			}
			what := cell{text: fmt.Sprintf("%d packed, %d loose, %d removed", r.After.PackedObjects, r.After.LooseObjects, r.Removed)}
			if r.Error != "" {
				what = cell{r.Error, red}
			} else if r.StartedAt.IsZero() {
				what = cell{}
			}
			rows = append(rows, []cell{{text: r.Workspace}, {text: last}, {text: next}, what})
		}
		p.table("no workspace with git", []string{"WORKSPACE", "LAST", "NEXT", "OBJECTS"}, rows)
	}}
}

func maintainedPage(p *page, r api.MaintenanceReport) {
	if r.DryRun {
		p.line("workspace %s: %d loose objects would be packed or kept, %d that nothing needs removed", r.Workspace, r.Before.LooseObjects, r.Unused)
		return
	}
	p.line("workspace %s was maintained", r.Workspace)
	for _, u := range r.Unreadable {
		p.line("  no old object was removed for the sake of %s", u)
	}
	p.line("  loose objects  %d -> %d", r.Before.LooseObjects, r.After.LooseObjects)
	p.line("  packs          %d -> %d", r.Before.Packs, r.After.Packs)
	p.line("  size           %s -> %s", kib(r.Before), kib(r.After))
	p.line("  removed        %s", api.Count(r.Removed, "object"))
	p.line("  lock held      %s", time.Duration(r.LockedMillis)*time.Millisecond)
}

func kib(s api.RepositorySize) string { return fmt.Sprintf("%d KiB", (s.LooseBytes+s.PackBytes)>>10) }
