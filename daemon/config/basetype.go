package config

import (
	"embed"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"github.com/BurntSushi/toml"

	"polis/daemon/api"
	"polis/daemon/shim/wire"
)

//go:embed types/*.toml
var builtin embed.FS

// BaseType says how to run one kind of coding agent. In Run and Interactive
// the word "{prompt}" stands for the task; Run without it gets the task as its last argument.
type BaseType struct {
	Name        string            `toml:"-" json:"name"`
	Description string            `toml:"description" json:"description"`
	Program     string            `toml:"program" json:"program,omitempty"`
	Run         []string          `toml:"run" json:"run,omitempty"`
	Interactive []string          `toml:"interactive" json:"interactive,omitempty"`
	Env         map[string]string `toml:"env" json:"env,omitempty"`
	PassEnv     []string          `toml:"pass_env" json:"pass_env,omitempty"`
	HomeFiles   []string          `toml:"home_files" json:"home_files,omitempty"`
	MemoryMB    int               `toml:"memory_mb" json:"memory_mb,omitempty"`
	Mounts      []wire.Mount      `toml:"mounts" json:"mounts,omitempty"`
	// AutoMerge says whether tasks that end well are merged; nil: as [merge] has it.
	AutoMerge *bool `toml:"auto_merge" json:"auto_merge,omitempty"`
	// Identity is who commits of agents of this type are by, unless [git] says more.
	Identity  Identity `toml:"identity" json:"identity,omitzero"`
	Available bool     `toml:"-" json:"available"`
	Reason    string   `toml:"-" json:"reason,omitempty"`
}

var typeName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

// searchPath is where programs of base types are looked for: the directories
// the sandbox has.
var searchPath = []string{"/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/opt/bin"}

// LoadTypes reads the built-in base types and those in dir, which win. A
// missing dir is no error; a bad file is.
func LoadTypes(dir string) (map[string]BaseType, error) {
	types := map[string]BaseType{}
	entries, err := builtin.ReadDir("types")
	if err != nil {
		return nil, api.Errorf(api.CodeInternal, "read built-in base types: %w", err)
	}
	for _, e := range entries {
		b, err := builtin.ReadFile("types/" + e.Name())
		if err != nil {
			return nil, api.Errorf(api.CodeInternal, "read built-in base type: %w", err)
		}
		if err := addType(types, e.Name(), string(b)); err != nil {
			return nil, err
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.toml"))
	if err != nil {
		return nil, api.Errorf(api.CodeInvalidConfig, "agents_dir: %w", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, api.Errorf(api.CodeInvalidConfig, "read base type: %w", err)
		}
		if err := addType(types, f, string(b)); err != nil {
			return nil, err
		}
	}
	return types, nil
}

func addType(types map[string]BaseType, file, text string) error {
	name := strings.TrimSuffix(filepath.Base(file), ".toml")
	if !typeName.MatchString(name) {
		return api.Errorf(api.CodeInvalidConfig, "%s: the file's name must be that of a base type: small letters, digits and '-'", file)
	}
	t := BaseType{Name: name}
	md, err := toml.Decode(text, &t)
	if err != nil {
		return api.Errorf(api.CodeInvalidConfig, "%s: %w", file, err)
	}
	if un := md.Undecoded(); len(un) > 0 {
		return api.Errorf(api.CodeInvalidConfig, "%s: unknown key %q", file, un[0].String())
	}
	if err := t.Identity.check(); err != nil {
		return api.Errorf(api.CodeInvalidConfig, "%s: %w", file, err)
	}
	t.Name = name
	t.Available, t.Reason = available(t.Program)
	types[name] = t
	return nil
}

func available(program string) (bool, string) {
	if program == "" {
		return true, ""
	}
	if filepath.IsAbs(program) {
		if isExec(program) {
			return true, ""
		}
		return false, program + " is not an executable file"
	}
	for _, dir := range searchPath {
		if isExec(filepath.Join(dir, program)) {
			return true, ""
		}
	}
	return false, program + " is not in " + strings.Join(searchPath, ":")
}

func isExec(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0
}

// PickType returns the named base type, or AGENT_TYPE_UNAVAILABLE with the
// names of those that are there.
func PickType(types map[string]BaseType, name string) (BaseType, error) {
	t, ok := types[name]
	if ok && t.Available {
		return t, nil
	}
	var have []string
	for _, t := range types {
		if t.Available {
			have = append(have, t.Name)
		}
	}
	sort.Strings(have)
	reason := "there is no such type"
	if ok {
		reason = t.Reason
	}
	return BaseType{}, api.Errorf(api.CodeAgentTypeUnavailable, "base type %q cannot be used: %s", api.Shorten(name, 64), reason).
		With("available", have).WithHint("available: %s", strings.Join(have, ", "))
}

// PromptCommand is the command that works on prompt. Agents of a type without
// a Run line get their own command with the prompt as last argument.
func (t BaseType) PromptCommand(own []string, prompt string) []string {
	line := t.Run
	if len(line) == 0 || len(own) > 0 && t.Name == "custom" {
		line = own
	}
	if len(line) == 0 {
		return nil
	}
	out, used := make([]string, 0, len(line)+1), false
	for _, w := range line {
		if strings.Contains(w, "{prompt}") {
			w, used = strings.ReplaceAll(w, "{prompt}", prompt), true
		}
		out = append(out, w)
	}
	if !used {
		out = append(out, prompt)
	}
	return out
}
