package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/config"
)

// standIns makes a directory of programs that say how they were called, and
// the options for a daemon whose agents see it.
func standIns(t *testing.T, names ...string) options {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "polis-tools-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	for _, n := range names {
		pkg := filepath.Join(dir, "node_modules", n)
		require.NoError(t, os.MkdirAll(pkg, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(pkg, "package.json"), []byte(`{"name": "`+n+`", "version": "9.8.7"}`), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(pkg, "cli"), []byte("#!/bin/sh\necho called \"$0\"\nfor a; do echo \"arg=$a\"; done\nenv | sort\ncat\necho the end\n"), 0o755))
		require.NoError(t, os.Symlink("../node_modules/"+n+"/cli", filepath.Join(dir, "bin", n)))
	}
	return options{
		mounts: fmt.Sprintf("{ source = %q, dest = %q, read_only = true }", dir, dir),
		box:    fmt.Sprintf("path = [%q]", filepath.Join(dir, "bin")),
	}
}

func (d *daemon) types() map[string]config.BaseType {
	d.t.Helper()
	var list struct{ Types []config.BaseType }
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "agents", "types")), &list))
	out := map[string]config.BaseType{}
	for _, t := range list.Types {
		out[t.Name] = t
	}
	return out
}

func TestBaseTypesRunTheirPrograms(t *testing.T) {
	o := standIns(t, "claude", "codex", "opencode")
	d := startDaemon(t, o)
	d.up()
	types := d.types()
	for _, name := range []string{"claude", "codex", "opencode"} {
		require.True(t, types[name].Available, types[name].Reason)
		require.Equal(t, "9.8.7", types[name].Version)
	}
	require.Contains(t, types["claude"].Hosts, "api.anthropic.com")
	require.Equal(t, "hook", types["claude"].Permissions.Kind)
	require.Contains(t, d.must("agents", "types"), "9.8.7")

	for name, c := range map[string]struct {
		args, env []string
		memory    int
	}{
		"claude":   {[]string{"-p", "--permission-mode", "bypassPermissions", "--output-format", "stream-json", "--verbose", "--", "say \"hi\" twice"}, []string{"DISABLE_AUTOUPDATER=1"}, 1024},
		"codex":    {[]string{"exec", "--sandbox", "danger-full-access", "--skip-git-repo-check", "--json", "--", "say \"hi\" twice"}, nil, 896},
		"opencode": {[]string{"run", "--auto", "--format", "json", "--", "say \"hi\" twice"}, []string{"OPENCODE_DISABLE_AUTOUPDATE=1"}, 1280},
	} {
		t.Run(name, func(t *testing.T) {
			var a api.Agent
			require.NoError(t, json.Unmarshal([]byte(d.must("--json", "agents", "add", name, "--base", name)), &a))
			require.Equal(t, c.memory, a.MemoryLimitMB, "what the type needs")
			d.must("agents", "run", name, `say "hi" twice`)
			var out string
			d.eventually("the program ran", func() bool {
				// It reads its input to the end, as codex does.
				out = strings.ReplaceAll(d.must("agents", "watch", name), "\r", "")
				return strings.Contains(out, "the end")
			})
			var args []string
			for line := range strings.Lines(out) {
				if a, ok := strings.CutPrefix(strings.TrimSpace(line), "arg="); ok {
					args = append(args, a)
				}
			}
			require.Equal(t, c.args, args)
			for _, e := range c.env {
				require.Contains(t, out, e)
			}
			require.Contains(t, d.exec(name, name, "--version").stdout, "arg=--version", "by name, as the agent would")
		})
	}
	var a api.Agent
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "agents", "add", "small", "--base", "claude", "--memory", "300")), &a))
	require.Equal(t, 300, a.MemoryLimitMB)

	// A type whose program is missing names those that are there.
	require.NoError(t, os.MkdirAll(d.path("agents.d"), 0o755))
	d.write("agents.d/lost.toml", "program = \"polis-no-such-program\"\n")
	e := d.refused(api.CodeAgentTypeUnavailable, "agents", "add", "lost", "--base", "lost")
	require.Contains(t, e.Message, "polis-no-such-program is not in ")
	require.Contains(t, e.Hint, "claude, codex, custom, opencode")
	require.Contains(t, fmt.Sprint(e.Details["available"]), "opencode")
	require.Contains(t, d.must("agents", "types"), "polis-no-such-program is not in ")
}

// The project belongs to root here, whose home is there on every machine.
func TestFilesOfTheOwnersHome(t *testing.T) {
	me, err := user.Current()
	require.NoError(t, err)
	needRoot(t)
	own, err := os.MkdirTemp(me.HomeDir, ".polis-e2e-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(own)) })
	rel := filepath.Base(own)
	put := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(own, name), []byte(text), 0o600))
	}
	put("copy", "mine")
	put("login", "first login")
	put("fixed", "first")
	require.NoError(t, os.Symlink("/etc/shadow", filepath.Join(own, "link")))

	d := startDaemon(t, options{})
	require.NoError(t, os.MkdirAll(d.path("agents.d"), 0o755))
	d.write("agents.d/homely.toml", fmt.Sprintf("home_files = [%q, %q]\ncredentials = [%q]\n[[home]]\npath = %q\nmode = \"read-only\"\n", rel+"/copy", rel+"/link", rel+"/login", rel+"/fixed"))
	repo := d.smallRepo()
	require.NoError(t, filepath.WalkDir(repo, func(p string, _ os.DirEntry, err error) error { return os.Lchown(p, 0, 0) }))
	d.must("up", "--repo", repo, d.path("ws"))
	for _, name := range []string{"one", "two"} {
		d.must("agents", "add", name, "--base", "homely", "--", "cat")
	}
	require.Equal(t, "mine600\n", d.sh("one", "cd ~/"+rel+" && cat copy && stat -c %a copy"))
	require.Equal(t, "first", d.sh("one", "cat ~/"+rel+"/fixed"))
	for _, script := range []string{"cat ~/" + rel + "/link", "echo x > ~/" + rel + "/fixed", "rm -f ~/" + rel + "/fixed", "mv ~/" + rel + "/copy ~/" + rel + "/fixed", "chmod 600 ~/" + rel + "/fixed"} {
		require.NotZero(t, d.exec("one", "sh", "-c", script).code, script)
	}
	d.sh("one", "echo changed-by-one > ~/"+rel+"/copy")
	require.Equal(t, "mine", d.sh("two", "cat ~/"+rel+"/copy"), "each has its own")
	require.Equal(t, "mine", readFile(filepath.Join(own, "copy")))
	require.Contains(t, d.log(), "leads out of")
	require.NotZero(t, d.exec("two", "sh", "-c", "grep -rs changed-by-one /home /root /run /tmp /var").code)

	// A new login reaches an agent with its program's next start, its sandbox need not end.
	d.sh("one", "echo renewed > ~/"+rel+"/login")
	put("login", "second login")
	require.Equal(t, 1, d.ctl("run", "one", "--wait", "x").code) // there is no file x
	require.Equal(t, "second loginrenewed\n", d.sh("one", "cd ~/"+rel+" && cat login login.polis-old"))

	// Later starts: what is read-only is the owner's of now, copies that the agent changed stay its own.
	put("fixed", "second")
	put("copy", "newer")
	d.must("agents", "stop", "one")
	d.must("agents", "start", "--program", "one")
	require.Equal(t, "secondchanged-by-one\n", d.sh("one", "cd ~/"+rel+" && cat fixed copy"))
	d.must("agents", "stop", "two")
	d.must("agents", "start", "--program", "two")
	require.Equal(t, "newer", d.sh("two", "cat ~/"+rel+"/copy"))
	require.Equal(t, "newer", readFile(filepath.Join(own, "copy")))
}
