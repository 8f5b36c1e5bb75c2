package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// config set changes one value of the file that polisd really uses; all else of it stays, and polisd reads it.
func TestConfigSetChangesTheFileOfPolisd(t *testing.T) {
	d := startDaemon(t, options{config: "# Mine.\n[git]\nhooks = \"off\" # until it is reviewed\n"})
	file := d.path("polisd.toml")
	require.Equal(t, file+"\n", d.must("config", "path"))
	before := readFile(file)
	require.NoError(t, os.Rename(file, d.path("real.toml")))
	require.NoError(t, os.Chmod(d.path("real.toml"), 0o640))
	require.NoError(t, os.Chown(d.path("real.toml"), 0, 64121))
	require.NoError(t, os.Symlink("real.toml", file))
	out := d.must("config", "set", "git.hooks", "run")
	require.Contains(t, out, `configured  git.hooks = "run" in `+file)
	require.Equal(t, strings.Replace(before, `hooks = "off"`, `hooks = "run"`, 1), readFile(file))
	fi, err := os.Lstat(file)
	require.NoError(t, err)
	require.Equal(t, os.ModeSymlink, fi.Mode().Type())
	fi, err = os.Stat(file)
	require.NoError(t, err)
	st, ok := fi.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	require.Equal(t, []uint32{0, 64121, 0o640}, []uint32{st.Uid, st.Gid, st.Mode & 0o7777})
	require.Equal(t, "\"run\"\n", d.must("config", "get", "git.hooks"))

	// polisd refuses the file: it stays as it is.
	before = readFile(file)
	for _, c := range [][]string{{"max_agents", "many"}, {"git.hooks", "sometimes"}, {"no_such_key", "1"}, {"git", "1"}} {
		r := d.ctl(append([]string{"config", "set"}, c...)...)
		require.Equal(t, 1, r.code, r)
		require.Equal(t, before, readFile(file), c)
	}
	require.NoFileExists(t, d.path(".real.toml.new"))

	// No change of another one is lost.
	var all sync.WaitGroup
	results := make([]result, 8)
	for i := range results {
		all.Go(func() {
			results[i] = d.ctl("config", "set", fmt.Sprintf("merge.workspaces.w%d.check", i), fmt.Sprintf("test %d", i))
		})
	}
	all.Wait()
	for i, r := range results {
		require.Zero(t, r.code, r)
		require.Contains(t, readFile(file), fmt.Sprintf("[merge.workspaces.w%d]\ncheck = \"test %d\"\n", i, i))
	}
	d.must("config", "set", "max_agents", "3")
	require.Contains(t, readFile(file), "\nmax_agents = 3\n")
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("polisd reads it", func() bool { return strings.Contains(d.log(), "configuration was read again") })
}

// The table of init has each thing that agents do not have as the owner has it, with the words and the command of the remedy,
// and the command works.
func TestInitDescribesTheProject(t *testing.T) {
	d := startDaemon(t, options{user: homeOwner})
	repo := d.ownersProject(map[string]string{
		".gitconfig":         "[user]\n\tname = Ann\n\temail = ann@x\n[core]\n\tautocrlf = input\n[commit]\n\tgpgSign = true\n[filter \"up\"]\n\tclean = tr a-z A-Z\n",
		".config/git/ignore": "*.swp\n", ".config/git/attributes": "*.txt text filter=up\n",
		"tools/bin/python3": "",
	})
	git(t, repo, "config", "core.sparseCheckout", "true")
	d.write("src/.git/info/sparse-checkout", "/*.txt\n") // no cone
	d.write("src/.git/hooks/pre-commit", "#!/bin/sh\n")
	require.NoError(t, os.Chmod(d.path("src/.git/hooks/pre-commit"), 0o755))
	require.NoError(t, os.Symlink(d.path("home/tools/bin/python3"), filepath.Join(repo, "python")))
	d.write("src/.git/MERGE_HEAD", git(t, repo, "rev-parse", "HEAD"))
	d.toOwner(repo, d.path("home"))
	type result struct {
		Checks    []api.Finding
		Workspace api.Workspace
	}
	initialize := func() (map[string]api.Finding, api.Workspace) {
		var res result
		require.NoError(t, json.Unmarshal([]byte(d.must("--json", "init", "--repo", repo, "--base", "custom", "--yes")), &res))
		rows := map[string]api.Finding{}
		for _, c := range res.Checks {
			require.NotContains(t, rows, c.Name, "each has one row")
			require.NotEmpty(t, c.Found, c)
			require.Contains(t, []api.Works{api.WorksOK, api.WorksPartly, api.WorksNo}, c.Works)
			if c.Command != "" {
				require.NotEmpty(t, c.Fix, "a command is never without its words: %v", c)
			}
			rows[c.Name] = c
		}
		return rows, res.Workspace
	}
	rows, ws := initialize()
	for name, found := range map[string]string{
		"operation in progress": "a merge is in progress", "attributes": d.path("home/.config/git/attributes"), "line endings": "core.autocrlf = input (global)",
		"filters": "up", "sparse checkout": "core.sparsecheckout", "hooks": "pre-commit", "signing": "commit.gpgSign", "links and interpreters": `"python" leads to`,
	} {
		require.Equal(t, api.WorksPartly, rows[name].Works, "%s: %v", name, rows[name])
		require.Contains(t, rows[name].Found, found)
		require.NotEmpty(t, rows[name].Fix, name)
		require.NotEqual(t, rows[name].Command == "", rows[name].NoCommand == "", "one command, or the reason why there is none: %s: %+v", name, rows[name])
	}
	for name, found := range map[string]string{"repository": "a clone at " + repo, "identity": "Ann <ann@x>", "ignore files": "1 pattern", "submodules": "none", "remotes": "none", "status settings": "as in agents"} {
		require.Equal(t, api.WorksOK, rows[name].Works, "%s: %v", name, rows[name])
		require.Contains(t, rows[name].Found, found)
	}
	for _, name := range []string{"FUSE", "forwarding", "routes", "inotify", "control groups", "kernel"} {
		require.Equal(t, api.AreaMachine, rows[name].Area, "%s of %v", name, rows)
	}
	table := d.must("init", "--repo", repo, "--base", "custom", "--yes")
	require.NotContains(t, table, "\x1b")
	require.Contains(t, table, fmt.Sprintf("$ sudo polisctl config set git.hooks run && sudo kill -HUP %d\n", d.cmd.Process.Pid))
	require.Contains(t, table, "to do: only if agents may run them")

	// The commands of the table are the remedies.
	for _, name := range []string{"hooks", "signing", "links and interpreters"} {
		line, reload, _ := strings.Cut(rows[name].Command, " && ")
		require.Equal(t, fmt.Sprint("sudo kill -HUP ", d.cmd.Process.Pid), reload)
		words := strings.TrimPrefix(line, "sudo polisctl ")
		require.NotEqual(t, words, line)
		shell(t, d, "polisctl "+words)
	}
	require.NoError(t, os.Remove(d.path("src/.git/MERGE_HEAD")))
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("polisd reads the configuration", func() bool {
		rows, _ = initialize()
		return rows["hooks"].Works == api.WorksOK && rows["signing"].Works == api.WorksOK && rows["operation in progress"].Works == api.WorksOK
	})
	require.Equal(t, api.WorksOK, rows["links and interpreters"].Works, rows["links and interpreters"])
	require.NotEmpty(t, ws.Name)
}

// shell runs a command line that polis printed.
func shell(t *testing.T, d *daemon, line string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+d.bin+":"+os.Getenv("PATH"), "POLIS_SOCKET="+d.path("run", "polisd.sock"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", line, out)
}
