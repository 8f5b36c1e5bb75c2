package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/internal/need"
)

// TestInitOnATerminal prompts for what no flag gives, with defaults.
func TestInitOnATerminal(t *testing.T) {
	f := newFake(t)
	repo := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(repo, "go.mod"), []byte("module x\n"), 0o600))
	c := startOnTerminal(t, f, "init", "--repo", repo)
	c.sees("Base type of the first agent (claude) [claude]: ")
	c.types("\n")
	c.sees("such as go test ./... [none]: ")
	c.types("\n")
	c.sees("[open]: ")
	c.types("\n")
	c.sees("polisctl run claude")
	require.Equal(t, 0, c.ends())
}

func TestProjectCheck(t *testing.T) {
	for want, file := range map[string][2]string{
		"make test": {"Makefile", "all:\n\ntest: all\n"}, "npm test": {"package.json", `{"scripts": {"test": "x"}}`}, "cargo test": {"Cargo.toml", ""}, "": {"Makefile", "tests:\n"},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, file[0]), []byte(file[1]), 0o600))
		require.Equal(t, want, projectCheck(dir), file[0])
	}
}

func TestConfigurationOfInit(t *testing.T) {
	e := configEdit{sets: entries(initAnswers{egress: "example.org, *.example.org", check: `echo "x"`})}
	e.workspace("ws")
	require.Equal(t, []entry{{"network", "egress", `["example.org", "*.example.org"]`}, {"merge.workspaces.ws", "check", `"echo \"x\""`}}, e.sets)
	require.Equal(t, `"none"`, entries(initAnswers{egress: "none"})[0].value)
	require.Empty(t, entries(initAnswers{egress: "open"}))
}

// An answer to another question is no check command: init asks again, and refuses it in the end.
func TestYesIsNoCheckCommand(t *testing.T) {
	c := startOnTerminal(t, newFake(t), "init", "--repo", t.TempDir(), "--egress", "open")
	c.sees("[claude]: ")
	c.types("\n")
	for _, answer := range []string{"y", "YES", "n"} {
		c.sees("[none]: ")
		c.types(answer + "\n")
		c.sees(`"` + answer + `" is an answer to a yes-or-no question`)
	}
	require.Equal(t, exitUsage, c.ends())
	require.NotContains(t, c.text(), "workspace")
}

// The command line has all answers, and a shell reads them back as they were.
func TestTheCommandOfInitForRootHasAllAnswers(t *testing.T) {
	a := &app{getenv: func(name string) string { return map[string]string{"POLIS_SOCKET": "/run/it's/polisd.sock"}[name] }}
	for name, ans := range map[string]initAnswers{
		"all":     {repo: "/src/a b", base: "claude", check: `make "test" && echo $HOME > 'x y'`, egress: "a.org, *.b.org", clone: true},
		"few":     {repo: "https://x.org/a.git?b=~", base: "custom"},
		"unusual": {repo: "/src/[x]\n~", base: "custom", check: "a\tb \\' #"},
	} {
		t.Run(name, func(t *testing.T) {
			words := initWords(ans, "/etc/polis/polisd.toml")
			text := a.asRoot(words...)
			for form, line := range map[string]string{"one line": text, "the page": strings.Join(printedCommand(text), "\n")} {
				out, err := exec.CommandContext(t.Context(), "bash", "-c", "sudo() { printf '%s\\0' \"$@\"; }; "+line).Output()
				require.NoError(t, err)
				require.Equal(t, append([]string{"polisctl", "--socket", "/run/it's/polisd.sock"}, words...), strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), form)
			}
		})
	}
}

func printedCommand(text string) (lines []string) {
	var b bytes.Buffer
	(&page{w: &b}).command("", text)
	return strings.Split(strings.TrimSpace(b.String()), "\n")
}

func TestTheTableOfFindingsHas80Columns(t *testing.T) {
	long := strings.Repeat("word ", 40) + strings.Repeat("x", 200) + "\x1b[31m\n"
	rows := []api.Finding{
		{Area: api.AreaGit, Name: "repository", Found: "a clone", Works: api.WorksOK},
		{Area: api.AreaGit, Name: "links and interpreters", Found: long, Works: api.WorksPartly, Cost: "costs " + long, Fix: long, Command: "sudo polisctl config set git.hooks " + strings.Repeat("run ", 40)},
		{Area: api.AreaMachine, Name: "FUSE", Found: "no", Works: api.WorksNo},
	}
	var plainText, colored bytes.Buffer
	findings(&page{w: &plainText}, rows)
	findings(&page{w: &colored, color: true}, rows)
	for line := range strings.Lines(plainText.String()) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
		require.NotContains(t, line, "\x1b")
	}
	require.Contains(t, colored.String(), "\x1b[33mpartly\x1b[0m")
	require.Contains(t, plainText.String(), "to do: word word")
	require.Contains(t, plainText.String(), "means: costs word")
}

// A user who may not change the configuration gets the workspace, and the command for root with all answers.
func TestInitOfAnOrdinaryUserPrintsTheCommandForRoot(t *testing.T) {
	need.Root(t)
	f := newFake(t)
	require.NoError(t, os.Chmod(f.dir, 0o755))
	require.NoError(t, os.Chmod(f.socket, 0o777))
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := os.ReadFile(self)
	require.NoError(t, err)
	program := filepath.Join(f.dir, "polisctl")
	require.NoError(t, os.WriteFile(program, text, 0o755)) //nolint:gosec // another user runs it
	run := func(args ...string) (stdout, stderr string) {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Env = "/", append(os.Environ(), "POLIS_SOCKET="+f.socket, "GORACE="+noRaceSleep)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{}}}
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Run(), &exit, out.String())
		require.Equal(t, exitForbidden, exit.ExitCode(), errs.String())
		return out.String(), errs.String()
	}
	want := "sudo polisctl --socket " + f.socket + " init --repo '/src/a $b' --base claude --config " + filepath.Join(f.dir, "polisd.toml") + " --check \"make test\" --egress none --yes"
	args := []string{"init", "--repo", "/src/a $b", "--check", "make test", "--egress", "none"}
	out, errs := run(args...)
	require.Contains(t, out, "workspace   project at")
	require.Contains(t, errs, "only root can change "+filepath.Join(f.dir, "polisd.toml")+"; all else is done")
	require.Contains(t, errs, "hint: "+want+"\n")
	require.Contains(t, strings.ReplaceAll(out, " \\\n  ", " "), "Next:\n  "+want+"\n")
	require.Len(t, f.log(), 1, "the workspace is made")
	out, _ = run(append([]string{"--json"}, args...)...)
	var res initResult
	require.NoError(t, json.Unmarshal([]byte(out), &res))
	require.Equal(t, want, res.Pending)
	require.Empty(t, res.Changed)

	require.NoFileExists(t, filepath.Join(f.dir, "polisd.toml"))
	out, errs = run("config", "set", "git.hooks", "it's")
	require.Empty(t, out)
	require.Contains(t, errs, "hint: sudo polisctl --socket "+f.socket+" config set --config "+filepath.Join(f.dir, "polisd.toml")+` -- git.hooks "it's"`)

	// What is set already needs nobody.
	require.NoError(t, os.WriteFile(filepath.Join(f.dir, "polisd.toml"), []byte("[network]\negress = \"none\"\n[merge.workspaces.project]\ncheck = \"true\"\n"), 0o644)) //nolint:gosec // another user reads it
	cmd := exec.CommandContext(t.Context(), program, append([]string{"--json"}, args...)...)
	cmd.Dir, cmd.Env = "/", append(os.Environ(), "POLIS_SOCKET="+f.socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{}}}
	text, err = cmd.Output()
	require.NoError(t, err)
	res = initResult{}
	require.NoError(t, json.Unmarshal(text, &res))
	require.Empty(t, res.Pending)
	require.Len(t, res.Warnings, 2)

	require.NoError(t, os.Chmod(filepath.Join(f.dir, "polisd.toml"), 0o600))
	_, errs = run("config", "get", "git.hooks")
	require.Contains(t, errs, "only root can read")
}
