package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/setting"
)

// peaks are the most that the programs were seen to use by themselves, in MiB.
var peaks = map[string]int{"claude": 447, "codex": 299, "gemini": 395, "qwen": 725, "opencode": 710, "copilot": 523, "pi": 165, "cline": 682}

func TestLoadTypeIsOneOfLoadTypes(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine.toml"), []byte("program = \"sh\"\nrun = [\"sh\", \"-c\"]\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "claude.toml"), []byte("program = \"other\"\nrun = [\"other\"]\n"), 0o600))
	types, err := LoadTypes(dir, Sandbox{})
	require.NoError(t, err)
	for name, want := range types {
		got, ok, err := LoadType(dir, Sandbox{}, name)
		require.NoError(t, err)
		require.True(t, ok, name)
		require.Equal(t, want, got)
	}
	require.Equal(t, "other", types["claude"].Program)
	for _, name := range []string{"", "nothing", "../claude", "Claude"} {
		_, ok, err := LoadType(dir, Sandbox{}, name)
		require.NoError(t, err)
		require.False(t, ok, name)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine.toml"), []byte("run = 3\n"), 0o600))
	_, ok, err := LoadType(dir, Sandbox{}, "mine")
	require.Error(t, err)
	require.False(t, ok)
	_, ok, err = LoadType(dir, Sandbox{}, "codex")
	require.NoError(t, err, "a bad file is not that of another type")
	require.True(t, ok)
}

func TestBuiltInTypesSayAllThatIsKnownOfThem(t *testing.T) {
	types, err := LoadTypes(t.TempDir(), Sandbox{})
	require.NoError(t, err)
	var names []string
	for name, b := range types {
		names = append(names, name)
		require.NotEmpty(t, b.Description, name)
		require.Contains(t, []string{"hook", "acp", "none"}, b.Permissions.Kind, name)
		if name == "custom" {
			continue
		}
		require.NotEmpty(t, b.Program, name)
		require.Equal(t, b.Program, b.Run[0], name)
		require.Equal(t, b.Program, b.Interactive[0], name)
		require.NotEmpty(t, b.Home, "%s: a program that nobody has logged in", name)
		require.GreaterOrEqual(t, b.MemoryMB, peaks[name]+512, "%s: its own highest peak, and what it starts", name)
		prompts := 0
		for _, w := range b.Run {
			if strings.HasSuffix(w, "{prompt}") {
				prompts++
			}
		}
		require.Equal(t, 1, prompts, "%s: the task is one argument", name)
		if name != "kiro" { // not examined yet
			require.NotEmpty(t, b.Hosts, name)
		}
	}
	slices.Sort(names)
	require.Equal(t, []string{"aider", "claude", "cline", "codex", "copilot", "custom", "gemini", "kiro", "opencode", "pi", "qwen"}, names)
}

func TestBaseTypesAreRefusedWithFieldValueAndRule(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":               {`programm = "sh"`, `unknown key "programm"`},
		"program in a directory":    {`program = "bin/sh"`, "program"},
		"program not clean":         {`program = "/usr/../bin/sh"`, "program"},
		"empty command":             {`run = [""]`, "run[0]"},
		"NUL in a command":          {"run = [\"a\", \"b\\u0000\"]", "run[1]"},
		"variable's name":           {"[env]\n\"A-B\" = \"1\"", "env.A-B"},
		"passed variable":           {`pass_env = ["A=B"]`, "pass_env[0]"},
		"host with a port":          {`hosts = ["a.org:443"]`, "hosts[0]"},
		"host in capitals":          {`hosts = ["a.org", "B.org"]`, "hosts[1]"},
		"host is a pattern":         {`hosts = ["a.*.org"]`, "hosts[0]"},
		"host is everything":        {`hosts = ["*"]`, "hosts[0]"},
		"host is an URL":            {`hosts = ["https://a.org"]`, "hosts[0]"},
		"little memory":             {`memory_mb = 3`, "memory_mb"},
		"negative memory":           {`memory_mb = -1`, "memory_mb"},
		"relative mount":            {"[[mounts]]\nsource = \"x\"\ndest = \"/x\"", "mounts[0]"},
		"home leaves":               {`home_files = ["../.ssh/id"]`, "home"},
		"home leaves in the middle": {"[[home]]\npath = \"a/../../b\"", "home"},
		"home is absolute":          {"[[home]]\npath = \"/etc/shadow\"", "home"},
		"home itself":               {"[[home]]\npath = \".\"", "home"},
		"home is empty":             {"[[home]]\nmode = \"copy\"", "home"},
		"home not clean":            {"[[home]]\npath = \"a//b\"", "home"},
		"home with a line":          {"[[home]]\npath = \"a\\nb\"", "home"},
		"home mode":                 {"[[home]]\npath = \"a\"\nmode = \"rw\"", "mode"},
		"home twice":                {"home_files = [\"a\"]\n[[home]]\npath = \"a\"", "cannot both"},
		"home file in a file":       {`home_files = ["a", "a/b"]`, "cannot both"},
		"home file over files":      {`home_files = ["a/b", "a"]`, "cannot both"},
		"credentials leave":         {`credentials = ["../x"]`, "home"},
		"credentials copied too":    {"home_files = [\"a\"]\ncredentials = [\"a\"]", "cannot both"},
		"answer leaves":             {answer(`file = "../x", format = "json", at = ["a"], value = true`), "answers[0].file"},
		"answer in what is fixed":   {"[[home]]\npath = \"a\"\nmode = \"read-only\"\n[[answers]]\nfile = \"a\"\nformat = \"json\"\nat = [\"b\"]\nvalue = true", "answers[0].file"},
		"answer below a file":       {"home_files = [\"a\"]\n" + answer(`file = "a/b", format = "json", at = ["a"], value = true`), "answers[0].file"},
		"answer's format":           {answer(`file = "x", format = "yaml", at = ["a"], value = true`), "answers[0].format"},
		"answers of two formats":    {answer(`file = "x", format = "json", at = ["a"], value = true }, { file = "x", format = "toml", at = ["a"], value = true`), "answers[0].format"},
		"answer nowhere":            {answer(`file = "x", format = "json", value = true`), "answers[0].at"},
		"answer at no name":         {answer(`file = "x", format = "json", at = ["a", ""], value = true`), "answers[0].at"},
		"answer without a value":    {answer(`file = "x", format = "json", at = ["a"]`), "answers[0].value"},
		"answer is a number":        {answer(`file = "x", format = "toml", at = ["a"], value = 1`), "answers[0].value"},
		"answer is a fraction":      {answer(`file = "x", format = "json", at = ["a"], value = 1.5`), "answers[0].value"},
		"answers are numbers":       {answer(`file = "x", format = "json", at = ["a"], value = [1]`), "answers[0].value"},
		"list in TOML":              {answer(`file = "x", format = "toml", at = ["a"], value = ["b"]`), "answers[0].value"},
		"permissions":               {"[permissions]\nkind = \"ask\"", "permissions.kind"},
		"hook without a file":       {"[permissions]\nkind = \"hook\"", "permissions.file"},
		"hook file leaves":          {"[permissions]\nkind = \"hook\"\nfile = \"~/../x\"", "permissions.file"},
		"acp without a command":     {"[permissions]\nkind = \"acp\"", "permissions.command"},
		"file without a kind":       {"[permissions]\nfile = \"/etc/x\"", "permissions.kind"},
		"identity":                  {`identity = { email = "a\nb" }`, "identity"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "mine.toml")
			require.NoError(t, os.WriteFile(file, []byte(c.text), 0o600))
			_, err := LoadTypes(dir, Sandbox{})
			require.Error(t, err)
			require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err))
			require.Contains(t, err.Error(), c.want)
			require.Contains(t, err.Error(), file)
		})
	}
}

func answer(fields string) string { return "answers = [{ " + fields + " }]" }

// What a login leaves behind is refreshed; the programs that ask about a directory are answered.
func TestBuiltInTypesNameLoginsAndAnswerDialogs(t *testing.T) {
	types, err := LoadTypes(t.TempDir(), Sandbox{})
	require.NoError(t, err)
	for name, login := range map[string]string{"claude": ".claude/.credentials.json", "codex": ".codex/auth.json", "gemini": ".gemini/oauth_creds.json", "qwen": ".qwen/oauth_creds.json",
		"opencode": ".local/share/opencode/auth.json", "pi": ".pi/agent/auth.json", "cline": ".cline/data/settings/providers.json", "copilot": ".copilot/config.json"} {
		require.Contains(t, types[name].Home, HomeFile{Path: login, Mode: HomeCredentials}, name)
	}
	for _, name := range []string{"claude", "codex", "gemini", "qwen", "copilot"} {
		require.True(t, slices.ContainsFunc(types[name].Answers, func(a Answer) bool {
			text := fmt.Sprint(a.At, a.Value)
			return strings.Contains(text, "{project}") && strings.Contains(strings.ToLower(text), "trust")
		}), name)
	}
}

func FuzzBaseType(f *testing.F) {
	f.Add("program = \"sh\"\nhosts = [\"*.a.org\"]\n[[home]]\npath = \".x/y\"\nmode = \"read-only\"")
	f.Add("home_files = [\"../x\", \"a\"]\n[permissions]\nkind = \"hook\"\nfile = \"~/x\"")
	f.Add("credentials = [\"x\"]\nanswers = [{ file = \"x\", format = \"json\", at = [\"{project}\"], value = [\"a\"] }]")
	f.Fuzz(func(t *testing.T, text string) {
		types := map[string]BaseType{}
		if addType(types, Sandbox{}, "x.toml", text) != nil {
			require.Empty(t, types)
			return
		}
		for _, h := range types["x"].Home {
			p := filepath.Join("/home/user", h.Path)
			require.True(t, within("/home/user", p) && p != "/home/user", h.Path)
		}
	})
}

// program puts an npm package with one program into dir, with a link to it in
// bin, and returns bin.
func program(t *testing.T, dir, name string) string {
	t.Helper()
	pkg, bin := filepath.Join(dir, "node_modules", "@vendor", name), filepath.Join(dir, "bin")
	require.NoError(t, os.MkdirAll(filepath.Join(pkg, "bin"), 0o755))
	require.NoError(t, os.MkdirAll(bin, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(pkg, "bin", "cli.js"), []byte("#!/bin/sh\n"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(pkg, "package.json"), []byte(`{"name": "@vendor/`+name+`", "version": "1.2.3"}`), 0o644))
	require.NoError(t, os.Symlink("../node_modules/@vendor/"+name+"/bin/cli.js", filepath.Join(bin, name)))
	return bin
}

func TestProgramsAreFoundWhereASandboxHasThem(t *testing.T) {
	dir := t.TempDir()
	bin := program(t, dir, "polis-test-claude")
	types := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(types, "mine.toml"), []byte(`program = "polis-test-claude"`), 0o600))
	load := func(box Sandbox) BaseType {
		m, err := LoadTypes(types, box)
		require.NoError(t, err)
		return m["mine"]
	}
	b := load(Sandbox{})
	require.False(t, b.Available)
	require.Contains(t, b.Reason, "polis-test-claude is not in /usr/local")

	b = load(Sandbox{Path: []string{bin}})
	require.False(t, b.Available, "the directory is in PATH and not in the sandbox")

	all := Sandbox{Path: []string{bin}, ExtraMounts: []setting.Mount{{Source: dir, Dest: dir, ReadOnly: true}}}
	b = load(all)
	require.True(t, b.Available, b.Reason)
	require.Equal(t, filepath.Join(bin, "polis-test-claude"), b.Path)
	require.Equal(t, "1.2.3", b.Version)

	elsewhere := Sandbox{Path: []string{"/opt/tools/bin"}, ExtraMounts: []setting.Mount{{Source: dir, Dest: "/opt/tools", ReadOnly: true}}}
	b = load(elsewhere)
	require.True(t, b.Available, b.Reason)
	require.Equal(t, "/opt/tools/bin/polis-test-claude", b.Path, "as the sandbox sees it")

	b = load(Sandbox{Path: []string{bin}, ExtraMounts: []setting.Mount{{Source: bin, Dest: bin, ReadOnly: true}}})
	require.False(t, b.Available)
	require.Contains(t, b.Reason, "leads to "+dir+"/node_modules")

	m, err := LoadTypes(types, Sandbox{})
	require.NoError(t, err)
	_, err = PickType(m, "mine")
	require.Equal(t, api.CodeAgentTypeUnavailable, api.CodeOf(err))
	require.Contains(t, api.AsError(err).Hint, "custom")
}
