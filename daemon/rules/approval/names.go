package approval

import (
	"maps"
	"slices"
	"strings"

	"polis/daemon/api"
)

// maxNames bounds the tools that a base type names.
const maxNames = 500

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

// Names resolves names of tools. The zero value knows those of all programs.
type Names struct {
	own map[string]named // what a base type says, in small letters
}

type named struct {
	name  string
	class api.ToolClass
}

// ReadNames reads the table [tools] of a base type: for a name that rules use ("read_file"), or
// for a class ("net"), the names that the program has for such tools.
func ReadNames(table map[string][]string) (Names, error) {
	n := Names{own: map[string]named{}}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		to, ok := known(key)
		class := api.ToolClass(key)
		if !ok && !slices.Contains(api.ToolClasses(), class) {
			return n, api.Errorf(api.CodeInvalidConfig, "tools.%s: must be a class of tools (%s), or one of %s", api.Shorten(key, 64), classList(), strings.Join(KnownTools(), ", "))
		}
		for _, own := range table[key] {
			small := strings.ToLower(own)
			if q := (Question{Kind: api.ApprovalTool, Tool: own}); q.check() != nil || strings.ContainsAny(own, " \t") {
				return n, api.Errorf(api.CodeInvalidConfig, "tools.%s = %q: must be the name of a tool", key, api.Shorten(own, 64))
			}
			if _, twice := n.own[small]; twice {
				return n, api.Errorf(api.CodeInvalidConfig, "tools.%s = %q: the tool is named twice", key, own)
			}
			if len(n.own) >= maxNames {
				return n, api.Errorf(api.CodeInvalidConfig, "tools: more than %d names", maxNames)
			}
			if ok {
				n.own[small] = to
			} else {
				n.own[small] = named{own, class}
			}
		}
	}
	return n, nil
}

// Canonical is the name that rules use for a tool, and its class; an unknown tool keeps its name.
func (n Names) Canonical(tool string) (string, api.ToolClass) {
	small := strings.ToLower(tool)
	if to, ok := n.own[small]; ok {
		return to.name, to.class
	}
	for _, row := range tools {
		if slices.Contains(row.names, small) {
			return row.names[0], row.class
		}
	}
	return tool, api.ToolOther
}

// known finds a tool by the name that rules use.
func known(name string) (named, bool) {
	for _, row := range tools {
		if row.names[0] == name {
			return named{name, row.class}, true
		}
	}
	return named{}, false
}

// KnownTools are the names that rules use.
func KnownTools() []string {
	var out []string
	for _, row := range tools {
		out = append(out, row.names[0])
	}
	return out
}

func classList() string {
	var out []string
	for _, c := range api.ToolClasses() {
		out = append(out, string(c))
	}
	return strings.Join(out, ", ")
}

// Input are the arguments of a tool of a class that say one text: a path, a command or an address.
func Input(class api.ToolClass, text string) map[string]any {
	key := map[api.ToolClass]string{api.ToolRead: "path", api.ToolEdit: "path", api.ToolShell: "command", api.ToolNet: "url"}[class]
	if text == "" || key == "" {
		return nil
	}
	return map[string]any{key: text}
}
