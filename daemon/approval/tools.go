package approval

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"polis/daemon/api"
)

// toolRow has the names that programs have for one tool, in small letters. The first is the name
// that rules for all programs use.
type toolRow struct {
	class api.ToolClass
	names []string
}

// tools are the tools whose class is known: of seed 003, Claude Code, Codex, Gemini CLI, Qwen
// Code, Copilot CLI, OpenCode and pi. Every other tool is of class "other".
var tools = []toolRow{
	{api.ToolRead, []string{"read_file", "read", "view", "read_many_files", "notebookread", "view_image"}},
	{api.ToolRead, []string{"glob"}},
	{api.ToolRead, []string{"list_directory", "ls", "list", "list_dir"}},
	{api.ToolRead, []string{"grep", "search_file_content", "grep_search"}},
	{api.ToolEdit, []string{"write_file", "write", "create"}},
	{api.ToolEdit, []string{"edit_file", "edit", "multiedit", "notebookedit", "replace", "patch", "apply_patch", "str_replace_editor"}},
	{api.ToolShell, []string{"bash", "shell", "run_shell_command", "exec_command", "local_shell", "write_stdin", "bashoutput", "killshell"}},
	{api.ToolNet, []string{"web_fetch", "webfetch", "fetch"}},
	{api.ToolNet, []string{"web_search", "websearch", "google_web_search"}},
}

// canonical is the first name of a tool's row, and its class; an unknown tool keeps its name.
func canonical(tool string) (string, api.ToolClass) {
	small := strings.ToLower(tool)
	for _, row := range tools {
		if slices.Contains(row.names, small) {
			return row.names[0], row.class
		}
	}
	return tool, api.ToolOther
}

// ToolQuestion is the question for a call of a tool. Paths below one of roots are made relative
// to it, so that a rule is the same for every agent.
func ToolQuestion(tool string, input map[string]any, roots []string) (Question, error) {
	q := Question{Kind: api.ApprovalTool, Tool: tool}
	name, class := canonical(tool)
	q.Class = class
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
		p := word("file_path", "absolute_path", "notebook_path", "path", "dir_path")
		if p == "" && (name == "glob" || name == "grep" || name == "list_directory") {
			p = "."
		}
		if p != "" {
			q.Text = relative(p, roots)
		}
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
