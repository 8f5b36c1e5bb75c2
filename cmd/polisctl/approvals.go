package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// shownWhat is how much of a question a line of a list has, in bytes.
const shownWhat = 80

func (a *app) approvalsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals COMMAND",
		Short: "Answer what agents ask for, and list what is remembered",
		Long: `If an agent's program has a hook, it opens a question before it uses a tool, and
waits for the answer. These commands list the questions and answer them. The first
answer is final; later ones are refused. See docs/approvals.md.`,
		Args: cobra.ArbitraryArgs,
		RunE: group,
	}
	cmd.AddCommand(a.approvalsListCmd(), a.approvalsShowCmd(), a.approvalsWatchCmd(), a.approveCmd(), a.denyCmd(), a.abortCmd(), a.rulesCmd(), a.revokeCmd())
	return cmd
}

func (a *app) approvalsListCmd() *cobra.Command {
	var workspace string
	var watch bool
	cmd := &cobra.Command{
		Use:     "list [--workspace W] [--watch]",
		Aliases: []string{"ls"},
		Short:   "List open questions, oldest first",
		Args:    takes(0, 0, ""),
	}
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "only questions of agents of this `WORKSPACE`")
	cmd.Flags().BoolVar(&watch, "watch", false, "continue until interrupted")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkWorkspace(workspace); err != nil {
			return err
		}
		return a.watched(cmd, watch, func(ctx context.Context, c *client.Client) (view, error) {
			all, err := c.Approvals(ctx, workspace)
			if err != nil {
				return view{}, err
			}
			return approvalsView(all), nil
		})
	}
	return cmd
}

func approvalsView(all []api.Approval) view {
	var ids []string
	rows := make([][]cell, 0, len(all))
	for _, v := range all {
		ids = append(ids, v.ID)
		rows = append(rows, []cell{{v.ID, yellow}, {text: v.Agent}, {text: v.Role}, {text: string(v.Kind)}, {text: briefWhat(v)}})
	}
	return view{json: map[string]any{"approvals": list(all)}, names: ids, human: func(p *page) {
		for i := range rows {
			rows[i] = slices.Insert(rows[i], 1, cell{text: p.ago(all[i].Since)})
		}
		p.table("no open questions", []string{"ID", "SINCE", "AGENT", "ROLE", "KIND", "QUESTION"}, rows)
	}}
}

// briefWhat is a question in one short line, which says how much of it is hidden.
func briefWhat(v api.Approval) string {
	text := v.What
	hidden := v.WhatHidden
	if len(text) > shownWhat {
		n := shownWhat
		for n > 0 && text[n]&0xc0 == 0x80 { // not in the middle of a character
			n--
		}
		hidden += len(text) - n
		text = text[:n]
	}
	text = strings.TrimSpace(v.Tool + " " + text)
	if hidden > 0 {
		text += fmt.Sprintf(" [%s more]", api.Count(hidden, "byte"))
	}
	return text
}

func (a *app) approvalsShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show a question: tool, arguments, caller, what an answer would add",
		Args:  takes(1, 1, "the ID of a question"), ValidArgsFunction: a.completeApprovals,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkText("ID", args[0], maxText); err != nil {
				return err
			}
			return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
				v, err := c.Approval(ctx, args[0])
				if err != nil {
					return err
				}
				return a.show(view{json: v, names: []string{v.ID}, human: func(p *page) { approvalPage(p, v) }})
			})
		},
	}
}

// approvalPage shows all of a question. The agent chose what stands after "what" and "arguments":
// it is escaped, and each is one line.
func approvalPage(p *page, v api.Approval) {
	p.line("question %s of agent %s", v.ID, v.Agent)
	field := p.fields(11)
	more := func(n int) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprintf(" [%s more are not shown]", api.Count(n, "byte"))
	}
	field("workspace", v.Workspace)
	field("role", v.Role)
	field("task", v.Task)
	field("kind", string(v.Kind))
	if v.Tool != "" {
		field("tool", fmt.Sprintf("%s (class %s)", v.Tool, v.Class))
	}
	field("what", v.What+more(v.WhatHidden))
	if v.Detail != "" && v.Detail != v.What {
		field("arguments", v.Detail+more(v.DetailHidden))
	}
	diffLines(p, v)
	field("note", v.Note)
	if v.PID > 0 {
		field("asked by", fmt.Sprintf("%s (pid %d on the host)", cmp.Or(v.Program, "a process"), v.PID))
	}
	if v.Answer != nil {
		text := string(v.Answer.Verdict) + " by " + who(v.Answer.By) + ", " + string(cmp.Or(v.Answer.Scope, api.ScopeOnce))
		if v.Answer.Raise > 0 {
			text += ", raised by " + strconv.FormatFloat(v.Answer.Raise, 'f', -1, 64)
		}
		if v.Answer.Reason != "" {
			text += ": " + v.Answer.Reason
		}
		field("answered", text)
		return
	}
	if v.Callers == 0 {
		field("state", "withdrawn: what asked does not wait any more")
		return
	}
	field("waiting", fmt.Sprintf("%s since %s ago; denied by itself in %s", api.Count(v.Callers, "call"), p.ago(v.Since), span(v.Deadline.Sub(p.now))))
	if v.Remember != "" {
		field("remember", "--for task, agent or role adds the rule "+v.Remember)
	} else {
		field("remember", "not possible (too long, or not UTF-8): it can be answered once only")
	}
}

const answerHelp = `The answer is for the calls that wait now, unless --for says more: for the agent's
present task, for the agent, or for all agents of its role in the workspace. The
last two are remembered until polisctl approvals revoke revokes them; they are
for exactly the same tool and text.`

const raiseHelp = `

An approval of a question about a model budget raises it as the question says, or by
the AMOUNT of --raise: tokens, or units of the currency of the prices.`

func (a *app) approveCmd() *cobra.Command {
	return a.answerCmd(api.VerdictApprove, "approve ID [--for SCOPE | --raise AMOUNT]", "Approve what an agent asks for", answerHelp+raiseHelp, true)
}

func (a *app) denyCmd() *cobra.Command {
	return a.answerCmd(api.VerdictDeny, "deny ID [REASON...] [--for SCOPE]", "Deny what an agent asks for",
		"Deny what an agent asks for. The agent's program, and its model, get the REASON.\n\n"+answerHelp, true)
}

func (a *app) abortCmd() *cobra.Command {
	return a.answerCmd(api.VerdictAbort, "abort ID [REASON...]", "Deny what an agent asks for, and end its task",
		`Deny what an agent asks for, and end the task that it works on, as polisctl tasks
cancel does. If the agent has no task, its program is stopped.`, false)
}

func (a *app) answerCmd(verdict api.Verdict, use, short, long string, scopes bool) *cobra.Command {
	var scope, amount string
	most, want := -1, "the ID of a question"
	if verdict == api.VerdictApprove {
		most = 1
	}
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: takes(1, most, want), ValidArgsFunction: a.completeApprovals}
	if scopes {
		cmd.Flags().StringVar(&scope, "for", "once", "what the answer is for: once, task, agent or role")
		_ = cmd.RegisterFlagCompletionFunc("for", completeWords("once", "task", "agent", "role")) // fails only for a flag that is not there
	}
	if verdict == api.VerdictApprove {
		cmd.Flags().StringVar(&amount, "raise", "", "raise a model budget by this `AMOUNT`: tokens or money, as the budget is")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req := api.AnswerRequest{Verdict: verdict, Scope: api.AnswerScope(scope), Reason: strings.Join(args[1:], " ")}
		if err := checkText("ID", args[0], maxText); err != nil {
			return err
		}
		if scopes && !slices.Contains([]string{"once", "task", "agent", "role"}, scope) {
			return usagef("--for %q is not valid: once, task, agent or role", clean(scope))
		}
		if cmd.Flags().Changed("raise") {
			var err error
			if req.Raise, err = strconv.ParseFloat(amount, 64); err != nil || !(req.Raise > 0) || math.IsInf(req.Raise, 0) {
				return usagef("--raise %q is not valid: a number of tokens, or an amount of money such as 2.50", clean(amount))
			}
			if req.Scope != api.ScopeOnce {
				return usagef("--raise is for the question alone, not --for %s", scope)
			}
		}
		if err := checkText("REASON", req.Reason, api.MaxAnswerReason); req.Reason != "" && err != nil {
			return err
		}
		return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
			v, err := c.Answer(ctx, args[0], req)
			if err != nil {
				return err
			}
			return a.show(view{json: v, names: []string{v.ID}, human: func(p *page) { p.line("%s", answeredText(v, req)) }})
		})
	}
	return cmd
}

func answeredText(v api.Approval, req api.AnswerRequest) string {
	text := "denied " + v.ID
	if req.Verdict == api.VerdictApprove {
		text = "approved " + v.ID
	}
	if req.Reason != "" {
		text += ": " + req.Reason
	}
	if req.Verdict == api.VerdictAbort {
		text += ", and its task ends"
	}
	if req.Raise > 0 {
		text += ", and the budget is raised by " + strconv.FormatFloat(req.Raise, 'f', -1, 64)
	}
	switch req.Scope {
	case api.ScopeTask:
		text += ", and " + v.Remember + " for the rest of its task"
	case api.ScopeAgent:
		text += ", and " + v.Remember + " for the agent from now on"
	case api.ScopeRole:
		text += ", and " + v.Remember + " for role " + v.Role + " from now on"
	case api.ScopeOnce:
	}
	return text
}

func (a *app) completeApprovals(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, args, func(ctx context.Context, c *client.Client) ([]string, error) {
		all, err := c.Approvals(ctx, "")
		var out []string
		for _, v := range all {
			out = append(out, v.ID)
		}
		return out, err
	})
}
