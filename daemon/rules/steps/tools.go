package steps

import (
	"encoding/json"
	"path"
	"regexp"
	"strings"

	"polis/daemon/api"
)

// toolKinds are the names that programs give their tools, in small letters and without
// '_', '-' and '.'.
var toolKinds = func() map[string]api.StepKind {
	out := map[string]api.StepKind{}
	for kind, names := range map[api.StepKind]string{
		api.StepRead:    "read readfile readfiles readmanyfiles view cat ls list listdirectory listfiles listdir notebookread",
		api.StepEdit:    "edit write writefile multiedit replace applypatch create strreplace strreplaceeditor insert notebookedit patch editor writetofile replaceinfile editfile",
		api.StepCommand: "bash shell runshellcommand exec execcommand executecommand runcommand runcommands localshell",
		api.StepSearch:  "grep glob rg find searchfilecontent grepsearch searchfiles codebasesearch searchcodebase search",
		api.StepWeb:     "webfetch websearch googlewebsearch fetch fetchwebcontent webreader",
	} {
		for name := range strings.FieldsSeq(names) {
			out[name] = kind
		}
	}
	return out
}()

// inputKeys are what a call is about, in the arguments of many tools; the first counts.
var inputKeys = []string{"file_path", "filePath", "absolute_path", "notebook_path", "command", "cmd", "commands", "pattern", "query", "url",
	"path", "filename", "dir_path", "paths", "files", "description", "prompt", "name", "input", "patch"}

// tool is what a call of a tool is: its kind and what it is about.
func (s *Stream) tool(name string, input []byte) (api.StepKind, string) {
	name = oneLine(name, 64)
	kind, ok := toolKinds[strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(name))]
	if !ok {
		kind = api.StepTool
	}
	var text string
	var args map[string]json.RawMessage
	if json.Unmarshal(input, &args) == nil {
		for _, key := range inputKeys {
			if text = words(args[key]); text != "" {
				break
			}
		}
	} else if err := json.Unmarshal(input, &text); err != nil {
		text = ""
	}
	switch {
	case kind == api.StepEdit && strings.HasPrefix(text, "*** Begin Patch"):
		text = patched(text)
	case kind == api.StepRead || kind == api.StepEdit:
		text = s.rel(text)
	case kind == api.StepCommand:
		text = unwrap(text)
	case kind == api.StepTool:
		text = strings.TrimSpace(name + " " + text)
	}
	if text == "" {
		text = name
	}
	return kind, text
}

// words is an argument as text: a string, or the strings of a list.
func words(raw json.RawMessage) string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return one
	}
	var many []json.RawMessage
	if json.Unmarshal(raw, &many) != nil {
		return ""
	}
	var out []string
	for _, m := range many[:min(len(many), 20)] {
		var word string
		var file struct {
			Path string `json:"path"`
		}
		switch {
		case json.Unmarshal(m, &word) == nil:
			out = append(out, word)
		case json.Unmarshal(m, &file) == nil && file.Path != "":
			out = append(out, file.Path)
		}
	}
	return strings.Join(out, " ")
}

// rel is a path relative to the project.
func (s *Stream) rel(p string) string {
	if s.Root != "" && path.IsAbs(p) {
		if below, ok := strings.CutPrefix(path.Clean(p), s.Root+"/"); ok {
			return below
		}
	}
	return p
}

var patchFile = regexp.MustCompile(`(?m)^\*\*\* (?:Add|Update|Delete) File: (.+)$`)

// patched names the files of a patch.
func patched(patch string) string {
	var out []string
	for _, m := range patchFile.FindAllStringSubmatch(patch, 5) {
		out = append(out, m[1])
	}
	return strings.Join(out, ", ")
}

var shellCommand = regexp.MustCompile(`(?s)^(?:/\S*/)?(?:bash|zsh|sh) -l?c (.+)$`)

// unwrap is a command without the shell that runs it.
func unwrap(command string) string {
	m := shellCommand.FindStringSubmatch(command)
	if m == nil {
		return command
	}
	in := m[1]
	if q := in[0]; len(in) > 1 && (q == '\'' || q == '"') && in[len(in)-1] == q && !strings.ContainsRune(in[1:len(in)-1], rune(q)) {
		return in[1 : len(in)-1]
	}
	return in
}
