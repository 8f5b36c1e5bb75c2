package approval

import (
	"path/filepath"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/fusefs/policy/glob"
)

// Bounds of rules.
const (
	maxToolRules = 200
	maxToolRule  = 512 // bytes
)

// Rules answer questions before a person does.
type Rules struct {
	Tools ToolSet
	// Remembered are the answers for the agent and for its role.
	Remembered []api.ApprovalRule
}

// ToolSet is api.ToolRules, compiled.
type ToolSet struct {
	deny, ask, approve []toolRule
	standard           api.Verdict
}

// toolRule is a class or tool, with a pattern or without.
type toolRule struct {
	text    string // as it was written
	class   api.ToolClass
	tool    string // canonical; "" with a class
	pattern string
	any     bool // without a pattern
	path    *glob.Pattern
}

// Compile reads the rules of a role, for any program.
func Compile(r api.ToolRules) (ToolSet, error) { return Names{}.Compile(r) }

// Compile reads the rules of a role, for the program whose names they are.
func (n Names) Compile(r api.ToolRules) (ToolSet, error) {
	s := ToolSet{standard: r.Default}
	switch r.Default {
	case "":
		s.standard = api.VerdictAsk
	case api.VerdictAsk, api.VerdictApprove, api.VerdictDeny:
	case api.VerdictAbort:
		return s, api.Errorf(api.CodeInvalidConfig, "default = %q: must be %q, %q or %q", r.Default, api.VerdictAsk, api.VerdictApprove, api.VerdictDeny)
	default:
		return s, api.Errorf(api.CodeInvalidConfig, "default = %q: must be %q, %q or %q", api.Shorten(string(r.Default), 32), api.VerdictAsk, api.VerdictApprove, api.VerdictDeny)
	}
	for _, list := range []struct {
		name string
		from []string
		to   *[]toolRule
	}{{"auto_deny", r.AutoDeny, &s.deny}, {"ask", r.Ask, &s.ask}, {"auto_approve", r.AutoApprove, &s.approve}} {
		if len(list.from) > maxToolRules {
			return s, api.Errorf(api.CodeInvalidConfig, "%s has %d rules: at most %d", list.name, len(list.from), maxToolRules)
		}
		for _, text := range list.from {
			rule, err := n.parse(text)
			if err != nil {
				return s, api.Errorf(api.CodeInvalidConfig, "%s: %w", list.name, err)
			}
			*list.to = append(*list.to, rule)
		}
	}
	return s, nil
}

func (n Names) parse(text string) (toolRule, error) {
	bad := func(why string) (toolRule, error) {
		return toolRule{}, api.Errorf(api.CodeInvalidConfig, "%q is no rule: %s", api.Shorten(text, 64), why)
	}
	if len(text) > maxToolRule {
		return bad("it is longer than 512 bytes")
	}
	name, pattern, has := strings.Cut(text, "(")
	r := toolRule{text: text, any: !has}
	if name = strings.TrimSpace(name); name == "" || strings.ContainsAny(name, " \t\n)") {
		return bad("it begins with a class of tools or a tool, such as shell or Bash")
	}
	if has {
		p, ok := strings.CutSuffix(pattern, ")")
		if !ok || p == "" {
			return bad("the pattern is between parentheses, such as shell(go test *)")
		}
		r.pattern = p
	}
	class := api.ToolClass(name)
	switch {
	case slices.Contains(api.ToolClasses(), class):
		r.class = class
	default:
		r.tool, class = n.Canonical(name)
	}
	if has && (class == api.ToolRead || class == api.ToolEdit) {
		g, err := glob.Compile(r.pattern)
		if err != nil {
			return bad(err.Error())
		}
		if g.Negated() {
			return bad("a pattern does not begin with !; write " + `\` + r.pattern + " for a name that does")
		}
		r.path = g
	}
	return r, nil
}

// Decision is what rules say to a question.
type Decision struct {
	Verdict api.Verdict
	// Rule is the rule that decided, escaped, Source where it is from; Reason is for the agent.
	Rule, Source, Reason string
}

// Decide applies the rules to a question; VerdictAsk if a person decides.
func (r Rules) Decide(q Question) Decision {
	tool := q.Kind == api.ApprovalTool
	if tool {
		if rule, ok := first(r.Tools.deny, q, true); ok {
			return Decision{Verdict: api.VerdictDeny, Rule: rule, Source: "auto_deny of the role", Reason: "the rule " + rule + " of the role denies it"}
		}
	}
	if d, ok := remembered(r.Remembered, q); ok {
		return d
	}
	if !tool {
		return Decision{Verdict: api.VerdictAsk, Source: "no rule"}
	}
	if rule, ok := first(r.Tools.ask, q, true); ok {
		return Decision{Verdict: api.VerdictAsk, Rule: rule, Source: "ask of the role"}
	}
	if rule, ok := first(r.Tools.approve, q, false); ok {
		return Decision{Verdict: api.VerdictApprove, Rule: rule, Source: "auto_approve of the role"}
	}
	d := Decision{Verdict: r.Tools.standard, Rule: "default", Source: "default of the role"}
	switch d.Verdict {
	case "":
		d.Verdict, d.Rule, d.Source = api.VerdictAsk, "", "no rule"
	case api.VerdictDeny:
		d.Reason = "no rule of the role approves it"
	case api.VerdictApprove, api.VerdictAsk, api.VerdictAbort:
	}
	return d
}

// remembered finds an answer to the same question; a denial is stronger.
func remembered(rules []api.ApprovalRule, q Question) (d Decision, ok bool) {
	for _, r := range rules {
		if r.Kind != q.Kind || r.Tool != q.Tool || r.What != q.Text || ok && r.Verdict != api.VerdictDeny {
			continue
		}
		d, ok = Decision{Verdict: r.Verdict, Rule: RuleText(r.Kind, r.Tool, r.What), Source: "answer " + r.ID + " of " + r.By, Reason: r.Reason}, true
		if d.Verdict == api.VerdictDeny {
			return d, true
		}
	}
	return d, ok
}

func first(rules []toolRule, q Question, strict bool) (string, bool) {
	for _, r := range rules {
		if r.match(q, strict) {
			return Escape(r.text), true
		}
	}
	return "", false
}

// match reports whether the rule is about the question. A strict rule restricts: it matches also
// if one of a shell's commands does. One that permits never lets a wildcard stand for what makes
// a shell do something else.
func (r toolRule) match(q Question, strict bool) bool {
	name, class := q.Name, q.Class
	if r.class != "" && r.class != class || r.tool != "" && r.tool != name {
		return false
	}
	switch {
	case r.any:
		return true
	case r.path != nil:
		return matchPaths(r.path, q.Paths, strict)
	case class != api.ToolShell:
		return wildcard(r.pattern, q.Text, "")
	case !strict:
		return wildcard(r.pattern, q.Text, shellSpecial)
	}
	if wildcard(r.pattern, q.Text, "") {
		return true
	}
	return slices.ContainsFunc(strings.FieldsFunc(q.Text, func(c rune) bool { return strings.ContainsRune(shellSpecial, c) }), func(part string) bool {
		return wildcard(r.pattern, strings.TrimSpace(part), "")
	})
}

// shellSpecial are the characters by which a shell begins another command, another file or an
// expansion (POSIX, Shell Command Language, 2.2 and 2.10).
const shellSpecial = ";&|`$()<>{}\n\r\\"

// matchPaths matches all paths, or, for a rule that restricts, one of them.
func matchPaths(g *glob.Pattern, paths []string, strict bool) bool {
	one := func(p string) bool { return matchPath(g, p) }
	if strict {
		return slices.ContainsFunc(paths, one)
	}
	return len(paths) > 0 && !slices.ContainsFunc(paths, func(p string) bool { return !one(p) })
}

// matchPath matches a path of the repository, or what is below it; no pattern matches one outside.
func matchPath(g *glob.Pattern, path string) bool {
	return filepath.IsLocal(path) && g.Covers(path, false)
}

// wildcard matches text with a pattern in which * stands for any characters but those of not. Each
// part of the pattern is taken where it first is, so that the time grows with the text only: with
// not, that may miss a match, and then a person decides.
func wildcard(pattern, text, not string) bool {
	parts := strings.Split(pattern, "*")
	text, ok := strings.CutPrefix(text, parts[0])
	if !ok || len(parts) == 1 {
		return ok && text == ""
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		i := strings.Index(text, part)
		if i < 0 || strings.ContainsAny(text[:i], not) {
			return false
		}
		text = text[i+len(part):]
	}
	text, ok = strings.CutSuffix(text, parts[last])
	return ok && !strings.ContainsAny(text, not)
}
