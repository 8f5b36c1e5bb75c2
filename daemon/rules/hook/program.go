package hook

import (
	"cmp"
	"path/filepath"
	"strings"

	"polis/daemon/api"
	"polis/daemon/rules/codexpatch"
)

// MaxInput bounds what a program gives to its hook, in bytes.
const MaxInput = 1 << 20

// Blocks is the exit status by which a hook stops a tool, in all programs.
const Blocks = 2

// Timeout bounds the hook of a program, in seconds. It is longer than a hook waits for an answer: a
// hook that is killed for its time does not stop the tool.
const Timeout = 7200

// Program is the hook of one program.
type Program struct {
	Name string
	// File is the configuration in the sandbox that names the hook.
	File string
	// Env are variables that keep the program from reading another file.
	Env []string

	events []string // the first is the one before a tool
	config func(command string, host []byte) ([]byte, error)
	parse  func(b []byte) (Call, error)
	answer func(c Call, res api.PermissionResponse) any
}

// Call is a call of a tool, as a program gives it to its hook.
type Call struct {
	Event string
	Tool  string
	Input map[string]any
	Cwd   string
}

// Programs are those with a hook.
func Programs() []Program {
	return []Program{
		{Name: "claude", File: "/etc/claude-code/managed-settings.d/polis.json", events: []string{"PreToolUse", "PermissionRequest"},
			config: dropIn(claudeSettings), parse: parseCall, answer: claudeAnswer},
		{Name: "codex", File: "/etc/codex/requirements.toml", events: []string{"PreToolUse", "PermissionRequest"},
			config: codexRequirements, parse: parseCall, answer: codexAnswer},
		{Name: "gemini", File: "/etc/gemini-cli/settings.json", Env: []string{"GEMINI_CLI_SYSTEM_SETTINGS_PATH=/etc/gemini-cli/settings.json"}, events: []string{"BeforeTool"},
			config: merged(geminiSettings), parse: parseCall, answer: geminiAnswer},
		{Name: "qwen", File: "/etc/qwen-code/settings.json", Env: []string{"QWEN_CODE_SYSTEM_SETTINGS_PATH=/etc/qwen-code/settings.json"}, events: []string{"PreToolUse", "PermissionRequest"},
			config: merged(qwenSettings), parse: parseCall, answer: claudeAnswer},
		{Name: "copilot", File: "/etc/github-copilot/policy.d/polis.json", events: []string{"preToolUse"},
			config: dropIn(copilotPolicy), parse: parseCopilot, answer: copilotAnswer},
	}
}

// ByName finds a program.
func ByName(name string) (Program, bool) { return find(func(p Program) bool { return p.Name == name }) }

// ByFile finds the program that reads a file.
func ByFile(file string) (Program, bool) { return find(func(p Program) bool { return p.File == file }) }

func find(match func(Program) bool) (Program, bool) {
	for _, p := range Programs() {
		if match(p) {
			return p, true
		}
	}
	return Program{}, false
}

// Names are those of all programs, for people.
func Names() string {
	var out []string
	for _, p := range Programs() {
		out = append(out, p.Name)
	}
	return strings.Join(out, ", ")
}

// Config is the content of File, over what the host has there (nil if nothing). command is the
// hook; it must end with status [Blocks] if anything goes wrong.
func (p Program) Config(command string, host []byte) ([]byte, error) { return p.config(command, host) }

// Parse reads what the program gives to its hook.
func (p Program) Parse(b []byte) (Call, error) {
	if len(b) > MaxInput {
		return Call{}, api.Errorf(api.CodeTooLarge, "the call of the tool has more than %d bytes: it cannot be judged", MaxInput)
	}
	c, err := p.parse(b)
	if err != nil {
		return c, api.Errorf(api.CodeBadRequest, "the call of the tool cannot be read: %w", err)
	}
	c.Event = cmp.Or(c.Event, p.events[0])
	for _, e := range p.events {
		if c.Event == e && c.Tool != "" {
			c.Input = atCwd(c.Input, c.Cwd)
			return c, nil
		}
	}
	return c, api.Errorf(api.CodeBadRequest, "hook %q of tool %q is not known", api.Shorten(c.Event, 64), api.Shorten(c.Tool, 64))
}

// atCwd makes the paths of arguments absolute, and those in patches.
func atCwd(input map[string]any, cwd string) map[string]any {
	if filepath.IsAbs(cwd) {
		for k, v := range input {
			switch v := v.(type) {
			case string:
				input[k] = patchAt(v, cwd)
			case []any: // the words of a command
				for i, w := range v {
					if text, ok := w.(string); ok {
						v[i] = patchAt(text, cwd)
					}
				}
			}
		}
	}
	for _, k := range []string{"file_path", "notebook_path", "path", "absolute_path", "dir_path"} {
		if p, ok := input[k].(string); ok && p != "" && !filepath.IsAbs(p) && filepath.IsAbs(cwd) {
			input[k] = filepath.Join(cwd, p)
		}
	}
	return input
}

// patchAt makes the paths in a patch absolute.
func patchAt(text, cwd string) string {
	return codexpatch.Rename(text, func(p string) string {
		if filepath.IsAbs(p) {
			return p
		}
		return filepath.Join(cwd, p)
	})
}
