package main

import (
	"context"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) removeCmd() *cobra.Command {
	var force, ignored bool
	cmd := &cobra.Command{
		Use:     "remove NAME... [--force] [--ignored]",
		Aliases: []string{"rm"},
		Short:   "Remove agents; their work is saved in the trash first",
		Long: `Remove agents with their sandbox, view, limits and ports. Their work is saved in the
trash; polisctl restore restores it. Without --force, an agent that runs or has work that is
stored nowhere else is kept.`,
		Args:              takes(1, -1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
	}
	cmd.Flags().BoolVarP(&force, "force", "f", false, "also remove an agent that runs or has unsaved work")
	cmd.Flags().BoolVar(&ignored, "ignored", false, "save ignored files as well")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAgents(args...); err != nil {
			return err
		}
		return a.call(cmd, longCall, func(ctx context.Context, c *client.Client) error {
			var done []api.RemoveResponse
			err := a.each(args, "removing agent ", func(name string) error {
				resp, err := c.Remove(ctx, name, force, ignored)
				if err == nil {
					done = append(done, resp)
				}
				return err
			})
			return a.showRemoved(len(args) == 1, done, err)
		})
	}
	return cmd
}

// each calls fn for each name and continues after a failure. It reports all
// failures but the first, which it returns. A sole failure is just returned.
func (a *app) each(names []string, doing string, fn func(string) error) error {
	var first error
	for _, name := range names {
		p := a.progress(doing + name)
		err := fn(name)
		p.done()
		switch {
		case err == nil:
		case first == nil:
			first = err
		default:
			a.complain(err)
		}
		if _, stop := wasInterrupted(err); stop {
			break
		}
	}
	return first
}

// showRemoved prints what was removed, then returns err, if any.
func (a *app) showRemoved(one bool, done []api.RemoveResponse, err error) error {
	if len(done) == 0 && err != nil {
		return err
	}
	var names []string
	for _, r := range done {
		names = append(names, r.Name)
	}
	v := view{json: map[string]any{"removed": list(done)}, names: names, human: func(p *page) {
		for _, r := range done {
			p.line("agent %s is removed", r.Name)
			if r.Trash != "" {
				p.line("  its work is kept at %s", r.Trash)
			}
			if r.Aside != "" {
				p.line("  its directory is kept at %s: a ref could not hold all of it", r.Aside)
			}
		}
	}}
	if one {
		v.json = done[0]
	}
	if werr := a.show(v); werr != nil && err == nil {
		return werr
	}
	return err
}
