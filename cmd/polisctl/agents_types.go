package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) typesCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "types [NAME]",
		Short: "List the base types agents can be made of",
		Long: `List the base types: whether the program is installed, where and in which version.
With NAME, show one type: its command lines, the placeholder of the task in them,
its variables, and its other settings.`,
		Example: `  polisctl agents types
  polisctl agents types claude`,
		Args:              takes(0, 1, "at most one NAME"),
		ValidArgsFunction: a.completeTypes,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
				types, err := c.Types(ctx)
				if err != nil {
					return err
				}
				if len(args) == 0 {
					return a.show(typesView(types))
				}
				i := slices.IndexFunc(types, func(t client.AgentType) bool { return t.Name == args[0] })
				if i < 0 {
					return api.Errorf(api.CodeAgentTypeUnavailable, "there is no base type %q", api.Shorten(args[0], 64)).WithHint("polisctl agents types lists them")
				}
				t := types[i]
				return a.show(view{json: map[string]any{"types": list(types[i : i+1])}, names: []string{t.Name}, human: func(p *page) { typeText(p, t) }})
			})
		},
	}
}

func typesView(types []client.AgentType) view {
	var names []string
	var rows [][]cell
	for _, t := range types {
		names = append(names, t.Name)
		ok, note := cell{"yes", green}, t.Description
		if !t.Available {
			ok = cell{"no", dim}
			if t.Reason != "" {
				note = t.Reason
			}
		}
		rows = append(rows, []cell{{text: t.Name}, ok, {text: t.Version}, {text: cmp.Or(t.Path, t.Program)}, {text: note}})
	}
	return view{json: map[string]any{"types": list(types)}, names: names, human: func(p *page) {
		p.table("no base types", []string{"NAME", "AVAILABLE", "VERSION", "PROGRAM", "DESCRIPTION"}, rows)
	}}
}

// promptForms describe how a type's command line takes a task.
var promptForms = map[string]string{
	"separator": "after --, so that no task is taken for an option",
	"joined":    "within a word, so that no task is taken for an option",
	"argument":  "as a word of its own; one that begins with '-' gets a space before it",
}

func typeText(p *page, t client.AgentType) {
	p.line("%s: %s", t.Name, t.Description)
	field := p.fields(12)
	found := strings.TrimSpace(cmp.Or(t.Path, t.Program) + " " + t.Version)
	if !t.Available {
		found = "no: " + t.Reason
	}
	field("available", cmp.Or(found, "yes"))
	field("run", commandText(t.Run))
	field("task", promptForms[t.PromptForm])
	if t.Stream != nil {
		steps := t.Stream.Format
		if len(t.Stream.Args) > 0 {
			steps += ", with " + commandText(t.Stream.Args)
		}
		field("steps", steps)
	}
	field("start", commandText(t.Interactive))
	if len(t.Prompt) > 0 {
		field("with CMD", "start: CMD, run: CMD "+commandText(t.Prompt))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Tools)) {
		field("tools", name+": "+strings.Join(t.Tools[name], ", "))
	}
	if len(t.Model) > 0 {
		model := commandText(t.Model)
		if t.ModelEnv != "" {
			model += ", and " + t.ModelEnv + " with the model of a role"
		}
		field("model", model)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		field("env", name+"="+t.Env[name])
	}
	for _, name := range t.PassEnv {
		is := "not set"
		if slices.Contains(t.PassedEnv, name) {
			is = "set"
		}
		field("pass_env", name+" ("+is+" in polisd's environment)")
	}
	for _, h := range t.Home {
		field("home", fmt.Sprintf("%s (%s)", h.Path, h.Mode))
	}
	for _, a := range t.Answers {
		field("answer", fmt.Sprintf("%s: %s = %v", a.File, strings.Join(a.At, "."), a.Value))
	}
	for _, m := range t.Mounts {
		field("mount", m.Source+" at "+m.Dest)
	}
	field("context", t.Context)
	field("hosts", strings.Join(t.Hosts, ", "))
	field("sparse", strings.Join(t.Sparse, ", "))
	if t.MemoryMB > 0 {
		field("memory", fmt.Sprintf("%d MB", t.MemoryMB))
	}
}

// commandText is a command line as one would type it.
func commandText(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w
		if w == "" || strings.ContainsAny(w, " \t\n'\"\\$*?`|&;<>()#!{}") {
			out[i] = shellWord(w)
		}
	}
	return strings.Join(out, " ")
}

// shellWord quotes a word for a shell. Backslashes are doubled only where the shell halves them.
func shellWord(w string) string {
	switch {
	case strings.ContainsFunc(w, func(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }):
		return "$'" + strings.ReplaceAll(strings.TrimSuffix(strconv.Quote(w)[1:], `"`), "'", `\'`) + "'"
	case strings.ContainsAny(w, "\"\\$`!"):
		return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return `"` + w + `"`
}
