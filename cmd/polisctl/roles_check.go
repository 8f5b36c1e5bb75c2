package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
)

var verdictColors = map[api.Verdict]paint{api.VerdictApprove: green, api.VerdictDeny: red, api.VerdictAsk: yellow}

var verdictWords = map[api.Verdict]string{api.VerdictApprove: "approve", api.VerdictDeny: "deny", api.VerdictAsk: "ask: a person decides"}

// decisionPage shows what would be decided, and then why.
func decisionPage(p *page, d api.RoleDecision) {
	fmt.Fprintln(p.w, p.paint(verdictColors[d.Verdict], verdictWords[d.Verdict]))
	say := func(what, text string) {
		if text != "" {
			p.line("  %-10s%s", what, text)
		}
	}
	switch {
	case d.Tool == "":
		say(string(d.Kind), d.What)
	case d.Name != d.Tool:
		say("tool", fmt.Sprintf("%s, which rules call %s (class %s)", d.Tool, d.Name, d.Class))
	default:
		say("tool", fmt.Sprintf("%s (class %s)", d.Tool, d.Class))
	}
	if d.Tool != "" {
		say("text", d.What)
	}
	rule := d.Rule
	if rule == "" {
		rule = "none"
	}
	say("rule", rule)
	say("from", d.Source)
	say("reason", d.Reason)
	say("then", d.Then)
}

func (a *app) completeRoles(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
	defer cancel()
	c := a.client()
	defer c.Close()
	all, err := c.Roles(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
