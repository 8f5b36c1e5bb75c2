package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestInit sets up a repository, writes the configuration, and ends with commands that work.
func TestInit(t *testing.T) {
	d := startDaemon(t, options{})
	repo := d.smallRepo()
	before := readFile(d.path("polisd.toml"))
	args := []string{"--json", "init", "--repo", repo, "--base", "custom", "--check", "test -e a.txt", "--egress", "none", "--config", d.path("polisd.toml"), "--yes"}
	var res struct {
		Workspace     api.Workspace
		Changed, Next []string
		Warnings      []string
	}
	require.NoError(t, json.Unmarshal([]byte(d.must(args...)), &res))
	require.Equal(t, []string{`network.egress = "none"`, "merge.workspaces." + res.Workspace.Name + `.check = "test -e a.txt"`}, res.Changed)
	after := readFile(d.path("polisd.toml"))
	for line := range strings.Lines(before) {
		require.Contains(t, after, line, "what the file had stays")
	}
	require.Len(t, res.Next, 3)
	d.must(strings.Fields(strings.TrimPrefix(res.Next[0], "polisctl "))...)
	d.eventually("polisd reads the configuration", func() bool { return strings.Contains(d.must("--json", "agents", "list"), `"none"`) })
	d.must(strings.Fields(strings.TrimPrefix(res.Next[2], "polisctl "))...)

	// Again: nothing changes, and what is set already is reported.
	require.NoError(t, json.Unmarshal([]byte(d.must(args...)), &res))
	require.Empty(t, res.Changed)
	require.Len(t, res.Warnings, 2)
	require.Equal(t, after, readFile(d.path("polisd.toml")))

	// polisd refuses the configuration: the file stays as it is.
	d.hinted("", "init", "--repo", repo, "--base", "custom", "--egress", "not a name.example", "--config", d.fresh("max_agents = 3\n"), "--yes")
	require.Equal(t, "max_agents = 3\n", readFile(d.path("other.toml")))
	require.NoFileExists(t, d.path("other.toml.new"))
}

// fresh writes another configuration file.
func (d *daemon) fresh(text string) string {
	d.write("other.toml", text)
	return d.path("other.toml")
}

// TestErrorsOfTheFirstMinutes: every error that a newcomer meets names the one command that mends it.
func TestErrorsOfTheFirstMinutes(t *testing.T) {
	d := startDaemon(t, options{user: owner})
	require.NoError(t, os.MkdirAll(d.path("agents.d"), 0o755))
	require.NoError(t, os.WriteFile(d.path("agents.d", "absent.toml"), []byte("program = \"polis-no-such-program\"\ninstall = \"sudo npm install -g @example/absent\"\n"), 0o644))
	require.NoError(t, os.WriteFile(d.path("agents.d", "loggedout.toml"), []byte("program = \"true\"\nrun = [\"true\"]\ninteractive = [\"true\"]\nlogin = \"true login\"\ncredentials = [\".polis-no-such-login\"]\npass_env = [\"POLIS_E2E_NO_SUCH_KEY\"]\n"), 0o644))
	stranger := func(name string, args ...string) string {
		program := d.path("bin", name) // the build directory may be closed to others
		require.NoError(t, os.MkdirAll(d.path("bin"), 0o755))
		require.NoError(t, os.WriteFile(program, []byte(readFile(filepath.Join(d.bin, name))), 0o755))
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir = "/"
		cmd.Env = append(os.Environ(), "POLIS_SOCKET="+d.path("run", "polisd.sock"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner, Gid: owner, Groups: []uint32{}}}
		out, err := cmd.CombinedOutput()
		require.Error(t, err, string(out))
		return string(out)
	}
	refused := func(args ...string) string {
		r := d.ctl(args...)
		require.NotZero(t, r.code, r)
		return r.stderr
	}
	for _, c := range []struct{ what, text, command string }{
		{"not root", stranger("polisd", "--config", d.path("polisd.toml")), "sudo systemctl start polisd"},
		{"polisd is not running", refused("--socket", d.path("no.sock"), "status"), "start polisd"},
		{"not in the group", stranger("polisctl", "status"), "sudo usermod -aG polis $USER"},
		{"no repository is under polis", refused("agents", "add", "alice", "--base", "custom"), "polisctl up --repo PATH"},
		{"not a repository", refused("up", "--repo", d.path("none")), "give the path of a checkout, or a URL"},
	} {
		require.Contains(t, c.text, c.command, c.what)
	}
	d.up()
	// No program of an agent is installed.
	require.NoError(t, os.Rename(d.path("agents.d", "loggedout.toml"), d.path("loggedout.toml")))
	for name, typ := range d.types() {
		if typ.Available && typ.Program != "" {
			require.NoError(t, os.WriteFile(d.path("agents.d", name+".toml"), []byte("program = \"polis-no-such-program\"\n"), 0o644))
		}
	}
	require.NoError(t, os.WriteFile(d.path("agents.d", "claude.toml"), []byte("program = \"polis-no-such-program\"\ninstall = \"sudo npm install -g @anthropic-ai/claude-code\"\n"), 0o644))
	require.Contains(t, d.hinted("%s; for a command of your own: polisctl init --base custom", "init", "--repo", d.path("src")), "sudo npm install -g @anthropic-ai/claude-code")
	d.must("init", "--repo", d.path("src"), "--base", "custom")
	require.NoError(t, os.Rename(d.path("loggedout.toml"), d.path("agents.d", "loggedout.toml")))
	require.Contains(t, refused("agents", "add", "alice", "--base", "absent"), "hint: sudo npm install -g @example/absent", "the program is missing")
	require.Contains(t, refused("init", "--repo", d.path("src"), "--base", "absent"), "hint: sudo npm install -g @example/absent")
	r := d.ctl("agents", "add", "bob", "--base", "loggedout")
	require.Zero(t, r.code, r)
	require.Contains(t, r.stdout+r.stderr, "as the owner run: true login", "not logged in")
	require.Contains(t, r.stdout+r.stderr, "polisctl agents set bob --env POLIS_E2E_NO_SUCH_KEY")
}
