package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLinksOutOfTheSandboxAreNamed: the interpreter of a virtual environment and an .env are elsewhere.
func TestLinksOutOfTheSandboxAreNamed(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	python := d.path("home", ".local", "share", "uv", "python", "cpython-3.12", "bin", "python3.12")
	require.NoError(t, os.MkdirAll(filepath.Dir(python), 0o755))
	require.NoError(t, os.WriteFile(python, []byte("#!/bin/sh\necho interpreter\n"), 0o755))
	env := d.path("elsewhere.env")
	require.NoError(t, os.WriteFile(env, []byte("A=b\n"), 0o644))
	d.shAsOwner(project, "mkdir -p .venv/bin; echo 'home = x' >.venv/pyvenv.cfg; ln -s "+python+" .venv/bin/python; ln -s python .venv/bin/python3; ln -s "+env+" .env; "+
		"ln -s /usr/bin/env fine; ln -s main.txt same; ln -s /dev/null null; mkfifo pipe; ln -s /proc/self/fd odd; printf '.venv/\\n.env\\n' >>.gitignore; printf '/.venv/\\n/.env\\n' >.worktreeinclude; git add .worktreeinclude .gitignore; git -c user.name=o -c user.email=o@x commit -qm include")
	uv := strings.TrimSuffix(python, "/python/cpython-3.12/bin/python3.12")
	lines := []string{
		`extra_mounts = [{ source = "` + env + `", dest = "` + env + `", read_only = true }]`,
		`extra_mounts = [{ source = "` + uv + `", dest = "` + uv + `", read_only = true }]`,
	}
	named := func(text string) {
		t.Helper()
		for _, line := range lines {
			require.Contains(t, text, line)
		}
		require.NotContains(t, text, "/usr/bin/env")
		require.NotContains(t, text, "/dev/null")
	}
	named(d.must("agents", "add", "alice", "--base", "custom"))
	why := d.must("agents", "why", "alice")
	named(why)
	require.Contains(t, why, "open .venv/bin/python: NOT_FOUND (ENOENT)")
	require.NotContains(t, why, "python3:", "it leads to the other link")
	named(d.ctl("doctor").stdout)
	require.NotZero(t, d.exec("alice", ".venv/bin/python").code)

	// The line does what it says.
	tables := ""
	for _, line := range lines {
		tables += strings.TrimSuffix(strings.TrimPrefix(line, "extra_mounts = ["), "]") + ", "
	}
	d.stop()
	config := strings.Replace(readFile(d.path("polisd.toml")), "extra_mounts = [", "extra_mounts = ["+tables, 1)
	require.Contains(t, config, tables)
	d.write("polisd.toml", config)
	d.start()
	d.must("agents", "stop", "alice")
	d.must("agents", "start", "alice")
	require.Equal(t, "interpreter\nA=b\n", d.sh("alice", ".venv/bin/python; cat .env"))
	require.NotContains(t, d.must("agents", "why", "alice"), "NOT_FOUND")
}
