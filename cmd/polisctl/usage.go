package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"polis/cmd/internal/modeltext"
	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) usageCmd() *cobra.Command {
	var by, since, workspace string
	cmd := &cobra.Command{
		Use:   "usage [--by agent|task|model|day|role] [--since DAY]",
		Short: "Show what agents used of model services: requests, tokens, cost",
		Long: `Show what agents used of the model services behind the gateway: requests, tokens
as the services report them, and the cost by your prices. IN has no cached tokens.
FIRST is the mean time to the first byte of an answer. NOTES counts errors, refused
requests, answers that were cut, answers whose tokens are estimated because the
service did not report them, and answers without a price in the configuration. COST
is of the others: "-" if there are none, and ">" is before a sum that lacks some.
It follows from the prices of the day of each request. By role, agents count for
the role that they have now, and NOTES has the budget that the role shares. Agents that were removed are
included; so is what an agent of the same name used before.

Without the gateway polis counts nothing: see docs/gateway.md.`,
		Args: takes(0, 0, ""),
	}
	cmd.Flags().StringVar(&by, "by", "agent", "sum by `WHAT`: agent, task, model, day or role")
	cmd.Flags().StringVar(&since, "since", "", "only since this `DAY` in UTC, YYYY-MM-DD")
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only this `WORKSPACE`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !slices.Contains(api.UsageBy, by) {
			return usagef("--by %q is not valid: one of %s", by, strings.Join(api.UsageBy, ", "))
		}
		if _, err := time.Parse(time.DateOnly, since); since != "" && err != nil {
			return usagef("--since %q is not valid: a day, YYYY-MM-DD", since)
		}
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			all, err := c.Usage(ctx, workspace, by, since)
			if err != nil {
				return err
			}
			return a.show(usageView(by, all))
		})
	}
	return cmd
}

func usageView(by string, all []api.ModelUse) view {
	var names []string
	rows := make([][]cell, 0, len(all))
	for _, u := range all {
		names = append(names, u.Key)
		key := clean(u.Key)
		if key == "" {
			key = "-"
		}
		rows = append(rows, []cell{{text: key}, {text: fmt.Sprint(u.Requests)}, {text: figure(u.InputTokens)}, {text: figure(u.OutputTokens)},
			{text: figure(u.CacheReadTokens + u.CacheWriteTokens)}, {text: modeltext.Cost(&u)}, {text: firstText(u.FirstTokenMS)}, {text: usageNotes(u)}})
	}
	return view{json: map[string]any{"usage": list(all)}, names: names, human: func(p *page) {
		p.table("no use of model services", []string{strings.ToUpper(by), "REQUESTS", "IN", "OUT", "CACHED", "COST", "FIRST", "NOTES"}, rows)
	}}
}

// figure writes a number with a comma before each three digits.
func figure(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// modelHeads are the heads of a table whose rows withModels makes.
func modelHeads(shown bool, heads ...string) []string {
	if !shown {
		return heads
	}
	last := len(heads) - 1
	return append(heads[:last:last], "TOKENS", "COST", heads[last])
}

// withModels adds what was used of model services to a row, before its last cell. Tables have it only where
// there is a model gateway.
func withModels(shown bool, u *api.ModelUse, row []cell) []cell {
	if !shown {
		return row
	}
	last := len(row) - 1
	return append(row[:last:last], cell{text: modeltext.TokensOf(u)}, cell{text: modeltext.Cost(u)}, row[last])
}

func firstText(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return (time.Duration(ms) * time.Millisecond).String()
}

func usageNotes(u api.ModelUse) string {
	var notes []string
	for _, n := range []struct {
		n    int64
		what string
	}{{u.Errors, "failed"}, {u.Refused, "refused"}, {u.Retries, "repeated"}, {u.Cut, "cut"}, {u.Estimated, "estimated"}, {u.Unpriced, "without a price"}} {
		if n.n > 0 {
			notes = append(notes, fmt.Sprintf("%d %s", n.n, n.what))
		}
	}
	if budget := modeltext.Budget(&u); budget != "" {
		notes = append(notes, budget)
	}
	return strings.Join(notes, ", ")
}
