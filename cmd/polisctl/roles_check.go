package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

var verdictColors = map[api.Verdict]paint{api.VerdictApprove: green, api.VerdictDeny: red, api.VerdictAsk: yellow}

var verdictWords = map[api.Verdict]string{api.VerdictApprove: "approve", api.VerdictDeny: "deny", api.VerdictAsk: "ask: a person decides"}

// decisionPage shows what would be decided, and then why.
func decisionPage(p *page, d api.RoleDecision) {
	fmt.Fprintln(p.w, p.paint(verdictColors[d.Verdict], verdictWords[d.Verdict]))
	field := p.fields(10)
	switch {
	case d.Tool == "":
		field(string(d.Kind), d.What)
	case d.Name != d.Tool:
		field("tool", fmt.Sprintf("%s, which rules call %s (class %s)", d.Tool, d.Name, d.Class))
	default:
		field("tool", fmt.Sprintf("%s (class %s)", d.Tool, d.Class))
	}
	if d.Tool != "" {
		field("text", d.What)
	}
	rule := d.Rule
	if rule == "" {
		rule = "none"
	}
	field("rule", rule)
	field("from", d.Source)
	field("reason", d.Reason)
	field("then", d.Then)
}

func (a *app) completeRoles(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
		all, err := c.Roles(ctx)
		var out []string
		for _, r := range all {
			out = append(out, r.Name)
		}
		return out, err
	})
}
