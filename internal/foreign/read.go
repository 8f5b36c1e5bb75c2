package foreign

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// A Setting is one that another tool has.
type Setting struct {
	// File is where it is, Key its name there, and Value what it is, as text.
	File  string `json:"file"`
	Key   string `json:"key"`
	Value string `json:"value"`
	// Options are those of "polisctl agents add" that have the same effect, Config lines of polisd.toml, with
	// the role [roles.adopted].
	Options []string `json:"options,omitempty"`
	Config  string   `json:"config,omitempty"`
	// Note is what polis does differently, or that it has nothing for the setting.
	Note string `json:"note,omitempty"`
}

// Mapped reports whether polis has something for the setting.
func (s Setting) Mapped() bool { return len(s.Options) > 0 || s.Config != "" }

// maxFile bounds a file that is read, in bytes; maxValues a list in it.
const (
	maxFile   = 1 << 20
	maxValues = 1000
)

// A reader adds what it finds in a document.
type reader struct {
	files []string
	read  func(file string, doc []byte, add func(Setting)) error
}

func readers() []reader {
	return []reader{
		{[]string{"conductor.json"}, conductor},
		{[]string{".claude/settings.json", ".claude/settings.local.json"}, claude},
		{[]string{".srt-settings.json"}, sandboxRuntime},
		{[]string{".devcontainer/devcontainer.json", ".devcontainer.json"}, devcontainer},
	}
}

// Read reads the settings in a project, and those of sandbox-runtime in the caller's home (nil: none). A file that
// cannot be read is one of the errors; the settings of the others are returned all the same.
func Read(project, home *os.Root) ([]Setting, error) {
	var out []Setting
	var errs []error
	for _, r := range readers() {
		for _, file := range r.files {
			for root, name := range map[*os.Root]string{project: file, home: "~/" + file} {
				if root == nil || root == home && file != ".srt-settings.json" {
					continue
				}
				doc, err := readFile(root, file)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err == nil {
					err = r.read(name, stripComments(doc), func(s Setting) { s.File = name; out = append(out, s) })
				}
				if err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", name, err))
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Setting) int { return strings.Compare(a.File, b.File) })
	return out, errors.Join(errs...)
}

func readFile(root *os.Root, name string) ([]byte, error) {
	if fi, err := root.Stat(name); err != nil {
		return nil, err
	} else if !fi.Mode().IsRegular() || fi.Size() > maxFile {
		return nil, fmt.Errorf("is not a regular file of at most %d bytes", maxFile)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	return b, errors.Join(err, f.Close())
}

// config writes lines of polisd.toml.
func config(table, key string, values []string) string {
	quoted := make([]string, len(values))
	for i, v := range values {
		b, err := json.Marshal(v) // a JSON string is a TOML string
		if err != nil {
			return ""
		}
		quoted[i] = string(b)
	}
	return fmt.Sprintf("[%s]\n%s = [%s]", table, key, strings.Join(quoted, ", "))
}

func bounded(values []string) []string { return values[:min(len(values), maxValues)] }

// conductor reads the scripts of Conductor.
func conductor(_ string, doc []byte, add func(Setting)) error {
	var c struct {
		Scripts struct{ Setup, Run, Archive string }
		Mode    string `json:"runScriptMode"`
	}
	if err := json.Unmarshal(doc, &c); err != nil {
		return err
	}
	if s := c.Scripts.Setup; s != "" {
		add(Setting{Key: "scripts.setup", Value: s, Note: "polis runs no script when it adds an agent; run it once: polisctl agents exec NAME -- sh -c '...'. Ignored files such as node_modules are shared ([shared] paths)"})
	}
	if s := c.Scripts.Run; s != "" {
		add(Setting{Key: "scripts.run", Value: s, Note: "run it in the sandbox: polisctl agents exec NAME -- sh -c '...'. Every agent has ports of its own, so CONDUCTOR_PORT is not needed: polisctl ports list"})
	}
	if s := c.Scripts.Archive; s != "" {
		add(Setting{Key: "scripts.archive", Value: s, Note: "polis runs no script when it removes an agent"})
	}
	if c.Mode != "" {
		add(Setting{Key: "runScriptMode", Value: c.Mode, Note: "agents do not share ports, so scripts can always run at the same time"})
	}
	return nil
}

// devcontainer reads the ports of a development container.
func devcontainer(_ string, doc []byte, add func(Setting)) error {
	var c map[string]any
	if err := json.Unmarshal(doc, &c); err != nil {
		return err
	}
	for _, key := range []string{"forwardPorts", "appPort"} {
		list, ok := c[key].([]any)
		if !ok && c[key] != nil {
			list = []any{c[key]}
		}
		for _, v := range list[:min(len(list), maxValues)] {
			text := fmt.Sprint(v)
			if n, ok := v.(float64); ok && n >= 1 && n <= 65535 && n == float64(int(n)) {
				add(Setting{Key: key, Value: fmt.Sprint(int(n)), Options: []string{"--port", fmt.Sprint(int(n))}})
				continue
			}
			add(Setting{Key: key, Value: text, Note: "only ports of the agent itself are mapped; open a service of the host with --host-port PORT"})
		}
	}
	for _, key := range []string{"image", "build", "features", "postCreateCommand", "runArgs", "mounts"} {
		if c[key] != nil {
			b, err := json.Marshal(c[key])
			if err != nil {
				return err
			}
			add(Setting{Key: key, Value: string(b), Note: "agents use the programs of this machine (/usr, /opt); polis builds no image"})
		}
	}
	return nil
}
