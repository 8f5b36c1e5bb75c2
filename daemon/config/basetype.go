package config

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"github.com/BurntSushi/toml"

	"polis/daemon/api"
	"polis/daemon/api/setting"
)

//go:embed types/*.toml
var builtin embed.FS

// BaseType describes how to run one kind of coding agent. In Run and Prompt
// "{prompt}" stands for the task; Run without it gets the task as its last argument.
type BaseType struct {
	Name        string `toml:"-" json:"name"`
	Description string `toml:"description" json:"description"`
	Program     string `toml:"program" json:"program,omitempty"`
	// Install is the command that installs the program for all users, Login what its user runs once to
	// log in. polis prints them and never runs them.
	Install     string   `toml:"install" json:"install,omitempty"`
	Login       string   `toml:"login" json:"login,omitempty"`
	Run         []string `toml:"run" json:"run,omitempty"`
	Interactive []string `toml:"interactive" json:"interactive,omitempty"`
	// Prompt is what follows a command line of the agent's own (agents add ... -- CMD)
	// to give it a task.
	Prompt []string `toml:"prompt" json:"prompt,omitempty"`
	// Model and Continue are what Run gets before the task to choose a model
	// ("{model}") and to continue with the program's last session; none: it cannot.
	Model []string `toml:"model" json:"model,omitempty"`
	// ModelEnv is the variable by which the program takes the model of a role, also with a
	// command line of the agent's own; "" if there is none.
	ModelEnv string   `toml:"model_env" json:"model_env,omitempty"`
	Continue []string `toml:"continue" json:"continue,omitempty"`
	// ACP is the command line that makes the program an agent of the Agent Client Protocol: see
	// [BaseType.ByACP].
	ACP []string `toml:"acp" json:"acp,omitempty"`
	// Stream is how Run prints what it does as lines that polis reads.
	Stream Stream `toml:"stream" json:"stream,omitzero"`
	// PromptForm describes how Run takes a task: see [BaseType.PromptCommand].
	PromptForm string `toml:"-" json:"prompt_form,omitempty"`
	// NoInput gives Run no standard input: programs that read it, if it is no
	// terminal, would wait for ever for its end.
	NoInput bool              `toml:"no_input" json:"no_input,omitempty"`
	Env     map[string]string `toml:"env" json:"env,omitempty"`
	// PassEnv are variables of polisd's own environment that agents get.
	PassEnv []string `toml:"pass_env" json:"pass_env,omitempty"`
	// PassedEnv are those of PassEnv that polisd has.
	PassedEnv []string `toml:"-" json:"passed_env,omitempty"`
	// HomeFiles is the short form of Home for private copies.
	HomeFiles []string `toml:"home_files" json:"-"`
	// Credentials is the short form of Home for logins.
	Credentials []string   `toml:"credentials" json:"-"`
	Home        []HomeFile `toml:"home" json:"home,omitempty"`
	// Gateway describes how the program uses a model service behind the gateway, by its kind.
	Gateway map[string]TypeGateway `toml:"gateway" json:"gateway,omitempty"`
	// Answers are written into files of the agent's home at each start of its program,
	// so that a first start does not wait at a dialog.
	Answers []Answer `toml:"answers" json:"answers,omitempty"`
	// Hosts are the names the program needs to reach: where a role allows only
	// some, these are among them. "*.x.org" does not include x.org.
	Hosts []string `toml:"hosts" json:"hosts,omitempty"`
	// MemoryMB is what the program needs: an agent gets at least this, unless it
	// is added with a limit of its own.
	MemoryMB int             `toml:"memory_mb" json:"memory_mb,omitempty"`
	Mounts   []setting.Mount `toml:"mounts" json:"mounts,omitempty"`
	// Permissions describes how the program asks before it does something.
	Permissions Permissions `toml:"permissions" json:"permissions,omitzero"`
	// Context is the file that the program reads for its model, in addition to those of the
	// repository: ~/FILE, or /etc/NAME/FILE of the administrator's. polis puts into it what the
	// model has to know of the sandbox.
	Context string `toml:"context" json:"context,omitempty"`
	// Tools are the names that the program has for its tools, by the names that rules use, or by
	// classes of tools (approval.ReadNames).
	Tools map[string][]string `toml:"tools" json:"tools,omitempty"`
	// AutoMerge reports whether tasks that end well are merged; nil: as [merge] has it.
	AutoMerge *bool `toml:"auto_merge" json:"auto_merge,omitempty"`
	// Sparse are the directories of the sparse checkout of agents of this type, unless they are added with others: an
	// empty list: all files; nil: those of the project's own checkout.
	Sparse []string `toml:"sparse" json:"sparse,omitzero"`
	// Identity is who commits of agents of this type are by, unless [git] says more.
	Identity Identity `toml:"identity" json:"identity,omitzero"`

	Available bool   `toml:"-" json:"available"`
	Reason    string `toml:"-" json:"reason,omitempty"`
	// Path is where the program was found, Version what its package says it is:
	// nothing is executed to find out.
	Path    string `toml:"-" json:"path,omitempty"`
	Version string `toml:"-" json:"version,omitempty"`
}

// HomeFile is a file of the owner's home that an agent finds in its own.
type HomeFile struct {
	Path string `toml:"path" json:"path"` // below the home directory
	// Mode is HomeCopy ("" too), HomeCredentials or HomeReadOnly.
	Mode string `toml:"mode" json:"mode"`
}

// What an agent gets of a file.
const (
	// HomeCopy is a private copy. A change of the owner's file replaces it as long as the
	// agent has not changed it; then it is the agent's own.
	HomeCopy = "copy"
	// HomeCredentials is a private copy that each change of the owner's file replaces: a
	// new login. What the agent made of its copy is kept beside it.
	HomeCredentials = "credentials"
	// HomeReadOnly is the file as it is when the agent starts, which it cannot change.
	HomeReadOnly = "read-only"
)

// Stream is machine-readable output of a program: the words that Run gets before the task
// to have it printed, and its format (see package steps); none: the output is text.
type Stream struct {
	Format string   `toml:"format" json:"format,omitempty"`
	Args   []string `toml:"args" json:"args,omitempty"`
}

// Permissions is how a program's own permission system is reached. polis keeps
// it as data; what asks is the program's.
type Permissions struct {
	// Kind is "hook" (a program is run before each tool), "acp" (the agent client
	// protocol, spoken by Command) or "none".
	Kind    string   `toml:"kind" json:"kind,omitempty"`
	File    string   `toml:"file" json:"file,omitempty"` // that names the hook, as the sandbox sees it; ~/ is the agent's home
	Command []string `toml:"command" json:"command,omitempty"`
}

var typeName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

// LoadTypes reads the built-in base types and those in dir, which win, and
// looks for their programs where a sandbox made as box says has them. A
// missing dir is no error; a bad file is.
func LoadTypes(dir string, box Sandbox) (map[string]BaseType, error) {
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
		if err := addType(types, box, e.Name(), string(b)); err != nil {
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
		if err := addType(types, box, f, string(b)); err != nil {
			return nil, err
		}
	}
	return types, nil
}

// LoadType is LoadTypes for one type. It returns false if there is none of that name.
func LoadType(dir string, box Sandbox, name string) (BaseType, bool, error) {
	if !typeName.MatchString(name) {
		return BaseType{}, false, nil
	}
	file := filepath.Join(dir, name+".toml")
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		b, err = builtin.ReadFile("types/" + name + ".toml")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return BaseType{}, false, nil
	}
	if err != nil {
		return BaseType{}, false, api.Errorf(api.CodeInvalidConfig, "read base type: %w", err)
	}
	types := map[string]BaseType{}
	err = addType(types, box, file, string(b))
	return types[name], err == nil, err
}

func addType(types map[string]BaseType, box Sandbox, file, text string) error {
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
	if err := t.check(); err != nil {
		return api.Errorf(api.CodeInvalidConfig, "%s: %w", file, err)
	}
	t.Name, t.PromptForm = name, promptForm(t.Run)
	for _, v := range t.PassEnv {
		if _, ok := os.LookupEnv(v); ok {
			t.PassedEnv = append(t.PassedEnv, v)
		}
	}
	t.find(box)
	types[name] = t
	return nil
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
	reason, hint := "there is no such type", "available: "+strings.Join(have, ", ")
	if ok {
		reason = t.Reason
		how := "install " + t.Program + " for all users"
		if t.Install != "" {
			how = t.Install
		}
		hint = how + "; or say in agents.d/" + t.Name + ".toml where it is (program and mounts: \"Base types\" of configuration.md); " + hint
	}
	return BaseType{}, api.Errorf(api.CodeAgentTypeUnavailable, "base type %q cannot be used: %s", api.Shorten(name, 64), reason).
		With("available", have).WithHint("%s", hint)
}
