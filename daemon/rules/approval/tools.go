package approval

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"polis/daemon/api"
)

// ToolQuestion is the question for a call of a tool of any program.
func ToolQuestion(tool string, input map[string]any, roots []string) (Question, error) {
	return Names{}.Question(tool, input, roots)
}

// Question is the question for a call of a tool. Paths below one of roots are made relative to it,
// so that a rule is the same for every agent.
func (n Names) Question(tool string, input map[string]any, roots []string) (Question, error) {
	q := Question{Kind: api.ApprovalTool, Tool: tool}
	name, class := n.Canonical(tool)
	q.Name, q.Class = name, class
	detail, err := compact(input)
	if err != nil {
		return q, api.Errorf(api.CodeBadRequest, "input: %w", err)
	}
	q.Detail = detail
	word := func(keys ...string) string {
		for _, k := range keys {
			switch v := input[k].(type) {
			case string:
				if v != "" {
					return v
				}
			case []any:
				if s, ok := words(v); ok {
					return s
				}
			}
		}
		return ""
	}
	switch class {
	case api.ToolRead, api.ToolEdit:
		paths := pathsOf(input)
		if len(paths) == 0 && (name == "glob" || name == "grep" || name == "list_directory") {
			paths = []string{"."}
		}
		for i := range paths {
			if strings.ContainsRune(paths[i], 0) {
				return q, api.Errorf(api.CodeBadRequest, "input: a path has a NUL byte")
			}
			paths[i] = relative(paths[i], roots)
		}
		// No path has a NUL: two paths cannot be taken for one.
		q.Paths, q.Text = paths, strings.Join(paths, "\x00")
	case api.ToolShell:
		q.Text = word("command", "cmd", "script")
	case api.ToolNet:
		q.Text = word("url", "query", "prompt")
	case api.ToolOther:
	}
	if q.Text == "" {
		q.Text = detail
	}
	return q, q.check()
}

func compact(input map[string]any) (string, error) {
	if len(input) == 0 {
		return "", nil
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(input); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// words joins the words of a command; one that a shell would read otherwise is quoted.
func words(list []any) (string, bool) {
	var out []string
	for _, v := range list {
		s, ok := v.(string)
		if !ok {
			return "", false
		}
		if s == "" || strings.ContainsAny(s, " \t\n'\"\\$*?`|&;<>()#!{}~") {
			s = "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
		out = append(out, s)
	}
	return strings.Join(out, " "), len(out) > 0
}

// relative makes a path relative to the root that it is below. It follows no links: what a path
// leads to is decided by the view.
func relative(p string, roots []string) string {
	p = filepath.Clean(p)
	for _, root := range roots {
		if rel, err := filepath.Rel(root, p); root != "" && err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return p
}
