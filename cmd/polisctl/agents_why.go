package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// agentQuery is a verb that asks one thing about one agent.
func (a *app) agentQuery(use, short string, ask func(context.Context, *client.Client, string) (view, error)) *cobra.Command {
	return &cobra.Command{
		Use:               use,
		Short:             short,
		Args:              takes(1, 1, "the NAME of an agent"),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkAgents(args[0]); err != nil {
				return err
			}
			return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
				v, err := ask(ctx, c, args[0])
				if err != nil {
					return err
				}
				return a.show(v)
			})
		},
	}
}

func (a *app) whyCmd() *cobra.Command {
	var all bool
	cmd := a.agentQuery("why NAME [--all]", "Explain what an agent was refused", func(ctx context.Context, c *client.Client, name string) (view, error) {
		res, err := c.Why(ctx, name)
		if err != nil {
			return view{}, err
		}
		res.Why = slices.DeleteFunc(list(res.Why), func(w api.WhyEntry) bool { return w.Probe && !all })
		var paths []string
		for _, w := range res.Why {
			paths = append(paths, w.Path)
		}
		return view{json: res, names: paths, human: func(p *page) { whyPage(p, name, res) }}, nil
	})
	cmd.Flags().BoolVar(&all, "all", false, "include calls that many programs try at every start and do not need")
	return cmd
}

func whyPage(p *page, name string, res api.Refusals) {
	why := res.Why
	if res.Recorded {
		p.line("%s", recordedText(name, res))
	}
	if res.DamagedFrom > 0 {
		p.line("the receipts of the agent are damaged: what it was refused from entry %d on is not known; polisctl receipts verify shows more", res.DamagedFrom)
	} else if len(why) == 0 {
		p.line("agent %s was refused nothing", name)
	}
	for _, w := range why {
		text := fmt.Sprintf("%s  %s %s: %s", w.Time.Local().Format(time.DateTime), w.Op, w.Path, w.Name())
		if w.Errno != "" { // polisd of an earlier version recorded none
			text += " (" + w.Errno + ")"
		}
		if w.Count > 1 {
			text += fmt.Sprintf(", %d times", w.Count)
		}
		p.line("%s", text)
		if w.Program != "" {
			p.line("  asked by %s (pid %d)", clean(w.Program), w.Pid)
		}
		if w.Holder != "" {
			held := "  held by " + who(w.Holder)
			if w.Since != nil {
				// How long it had been held then: it may be free by now.
				held += fmt.Sprintf(", for %s at that time", span(w.Time.Sub(*w.Since)))
			}
			p.line("%s", held)
		}
		if w.Rule != "" && w.By == "" {
			p.line("  because: %s", w.Rule)
		}
		if w.By != "" {
			p.line("  %s", api.DeniedText(who(w.By), w.Path, w.Reason))
		} else if w.Hint != "" {
			p.line("  %s", w.Hint)
		}
	}
}

// recordedText is the state of an agent whose shim does not run.
func recordedText(name string, res api.Refusals) string {
	text := "agent " + name + " is " + string(res.Status)
	if res.Status == api.StatusError {
		text = "agent " + name + " is in state Error"
	}
	if res.StatusSince != nil {
		text += " since " + res.StatusSince.Local().Format(time.DateTime)
	}
	if res.StatusReason != "" {
		text += " (" + clean(res.StatusReason) + ")"
	}
	if len(res.Why) > 0 {
		text += "; recorded until then:"
	}
	return text
}

func (a *app) policyCmd() *cobra.Command {
	return a.agentQuery("policy NAME", "Show what an agent may read and write", func(ctx context.Context, c *client.Client, name string) (view, error) {
		pol, err := c.Policy(ctx, name)
		if err != nil {
			return view{}, err
		}
		var rows [][]cell
		for _, r := range []struct {
			rule  string
			globs []string
			color paint
		}{{"hide", pol.Hide, red}, {"deny", pol.Deny, red}, {"ask", pol.Ask, yellow}, {"write", pol.Write, green}, {"read", pol.Read, plain}, {"exclusive", pol.Exclusive, green}} {
			for _, g := range r.globs {
				rows = append(rows, []cell{{r.rule, r.color}, {text: g}})
			}
		}
		return view{json: pol, human: func(p *page) {
			p.table("no rules", []string{"RULE", "PATHS"}, rows)
			if pol.Temp {
				p.line("a private scratch directory is at $TMPDIR")
			}
		}}, nil
	})
}
