//go:build agents

package e2e

import (
	"fmt"
	"slices"
	"strings"
)

// tool is a tool that an agent offers to its model.
type tool struct {
	name   string
	free   bool // it takes text, and no object
	schema obj
}

// step is one thing that the model has the agent do: a command, or with the tool that the
// agent has for it: reading a file, writing a new one, or replacing text in one.
type step struct {
	kind string
	args obj // by the names that agents' tools give to what the step has
}

// Names of arguments differ between agents; each step has its values under all of them.
func named(value any, names ...string) obj {
	o := obj{}
	for _, n := range names {
		o[n] = value
	}
	return o
}

func (s step) with(more obj) step {
	for k, v := range more {
		s.args[k] = v
	}
	return s
}

var pathNames = []string{"file_path", "filePath", "path", "absolute_path", "filename"}

func shellStep(command string) step {
	return step{"shell", named(command, "command", "cmd")}.with(obj{"commands": []string{command}})
}

func readStep(path string) step {
	return step{"read", named(path, pathNames...)}.with(obj{"files": []obj{{"path": path}}})
}

func writeStep(path, text string) step {
	return step{"write", named(path, pathNames...)}.with(named(text, "content", "file_text", "new_text"))
}

func editStep(path, from, to string) step {
	return step{"edit", named(path, pathNames...)}.with(named(from, "old_string", "oldString", "old_str", "old_text", "oldText")).
		with(named(to, "new_string", "newString", "new_str", "new_text", "newText")).
		with(obj{"edits": []obj{{"oldText": from, "newText": to}}})
}

// toolNames are the tools that agents have for a step, the best first.
var toolNames = map[string][]string{
	"shell": {"bash", "shell", "exec_command", "shell_command", "run_shell_command", "run_commands", "execute_command"},
	"read":  {"read", "read_file", "view", "read_files"},
	"write": {"write", "write_file", "create", "editor"},
	"edit":  {"edit", "replace", "editor"},
	"patch": {"apply_patch"},
}

// find is an agent's tool for a step.
func find(tools []tool, kind string) *tool {
	for _, name := range toolNames[kind] {
		if i := slices.IndexFunc(tools, func(t tool) bool { return strings.EqualFold(t.name, name) }); i >= 0 {
			return &tools[i]
		}
	}
	return nil
}

// turn is the call that takes the step with an agent's tools. An agent that edits by patches gets one, and
// one that has no tool of that kind a command.
func (s step) turn(tools []tool) turn {
	if t := find(tools, s.kind); t != nil {
		return turn{call: t, input: fill(t.schema, s.args)}
	}
	patch := s.patch()
	if t := find(tools, "patch"); t != nil && patch != "" {
		return turn{call: t, input: fill(t.schema, named(patch, "input", "patch", "patchText")), free: patch}
	}
	t := find(tools, "shell")
	if t == nil {
		return turn{words: done}
	}
	return turn{call: t, input: fill(t.schema, shellStep(s.command()).args)}
}

// patch is the step in the form that Codex and OpenCode take.
func (s step) patch() string {
	path := s.args["path"]
	switch s.kind {
	case "write":
		return fmt.Sprintf("*** Begin Patch\n*** Add File: %s\n+%s\n*** End Patch\n", path, strings.TrimSuffix(fmt.Sprint(s.args["content"]), "\n"))
	case "edit":
		return fmt.Sprintf("*** Begin Patch\n*** Update File: %s\n@@\n-%s\n+%s\n*** End Patch\n", path, s.args["old_string"], s.args["new_string"])
	}
	return ""
}

// command is the step as a shell takes it.
func (s step) command() string {
	path := s.args["path"]
	switch s.kind {
	case "read":
		return fmt.Sprintf("cat '%s'", path)
	case "write":
		return fmt.Sprintf("printf %%s '%s' >'%s'", s.args["content"], path)
	case "edit":
		return fmt.Sprintf("sed -i 's/%s/%s/' '%s'", s.args["old_string"], s.args["new_string"], path)
	}
	return fmt.Sprint(s.args["command"])
}

// fill is what a tool's schema wants of the values, and something for what it requires besides.
func fill(schema, values obj) obj {
	input := obj{}
	props, _ := schema["properties"].(obj)
	for name, p := range props {
		if v, ok := values[name]; ok {
			input[name] = asType(p, v)
		}
	}
	required, _ := schema["required"].([]any)
	for _, r := range required {
		name := fmt.Sprint(r)
		if _, ok := input[name]; ok {
			continue
		}
		p, _ := props[name].(obj)
		switch strings.ToLower(fmt.Sprint(p["type"])) {
		case "boolean":
			input[name] = false
		case "number", "integer":
			input[name] = 1
		case "array":
			input[name] = []any{}
		default:
			input[name] = "do the work"
			if enum, _ := p["enum"].([]any); len(enum) > 0 {
				input[name] = enum[0]
			}
		}
	}
	return input
}

// asType makes a command a list where the schema wants one.
func asType(prop, v any) any {
	p, _ := prop.(obj)
	if text, ok := v.(string); ok && p["type"] == "array" {
		return []string{"bash", "-lc", text}
	}
	return v
}

// end is how the model says that it is done: some agents have a tool for it.
func end(tools []tool) turn {
	for _, name := range []string{"attempt_completion", "submit_and_exit"} {
		if i := slices.IndexFunc(tools, func(t tool) bool { return t.name == name }); i >= 0 {
			t := &tools[i]
			return turn{call: t, input: fill(t.schema, named(done, "result", "summary")), id: "call_end"}
		}
	}
	return turn{words: done}
}
