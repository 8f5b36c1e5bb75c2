package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// installer makes what deps.lock names, as npm ci would, without a network.
const installer = `set -e
test "$POLIS_SETUP" = 1
test "$(id -u)" = 65534
rm -rf node_modules .venv
while read name; do
	test "$name" != broken || { echo "no such package: $name" >&2; exit 7; }
	mkdir -p "node_modules/$name"
	head -c 200000 /dev/zero | tr '\0' "$name" > "node_modules/$name/index.js"
	ln "node_modules/$name/index.js" "node_modules/$name/linked.js"
done < deps.lock
mkdir .venv && pwd > .venv/path && echo '*' > .venv/.gitignore
echo changed >> README.md; rm docs/guide.md; echo untracked > notes.txt; printf '*\n' > src/.gitignore
echo installed
`

// prepared starts a polisd with a setup command and a repository that needs it. more are keys of the
// setup, and workspace keys of [workspace].
func prepared(t *testing.T, o options, more string, workspace ...string) (d *daemon, repo string) {
	t.Helper()
	o.config += "\n[workspace]\nworktree = \"shared\"\n" + strings.Join(workspace, "\n") + "\n[workspace.setup]\nrun = \"sh ci.sh\"\ninputs = [\"deps.lock\"]\negress = \"none\"\n" + more
	d = startDaemon(t, o)
	repo = d.smallRepo()
	require.NoError(t, os.WriteFile(filepath.Join(repo, "deps.lock"), []byte("left\npad\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(repo, "ci.sh"), []byte(installer), 0o644))
	git(t, repo, "add", "-A")
	git(t, repo, "commit", "-qm", "Dependencies")
	d.giveAway(repo)
	d.must("up", "--repo", repo, d.path("ws"))
	return d, repo
}

func (d *daemon) setupStatus() api.Setup {
	d.t.Helper()
	var list struct{ Setups []api.Setup }
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "setup")), &list))
	require.Len(d.t, list.Setups, 1)
	return list.Setups[0]
}

// current returns the result that new agents get.
func (d *daemon) current() *api.SetupResult {
	d.t.Helper()
	for _, r := range d.setupStatus().Results {
		if r.Current {
			return &r
		}
	}
	return nil
}

// The third agent of a prepared project runs its tests without an installation, and the dependencies
// are on the disk once.
func TestAgentsShareWhatTheSetupMade(t *testing.T) {
	d, repo := prepared(t, options{}, "")
	agentsShare(t, d, repo, "fuse.polis")
}

// The same with the overlay above the view: it has two lower layers.
func TestAgentsShareWhatTheSetupMadeAboveTheView(t *testing.T) {
	d, repo := prepared(t, options{}, "", `layers = "auto"`)
	agentsShare(t, d, repo, "overlay")
}

// agentsShare checks that; top is the type of the agents' worktrees.
func agentsShare(t *testing.T, d *daemon, repo, top string) {
	t.Helper()
	// What the user's checkout has does not mix with it.
	require.NoError(t, os.MkdirAll(filepath.Join(repo, "node_modules", "stale"), 0o755))
	d.giveAway(repo)
	d.must("agents", "add", "ann", "--base", "custom", "--wait-setup")
	first := d.current()
	require.NotNil(t, first, "%+v", d.setupStatus())
	require.Equal(t, []string{"ann"}, first.Agents)
	require.ElementsMatch(t, []string{".venv/", "node_modules/"}, first.Outputs)
	require.Positive(t, first.Dropped, "tracked and untracked files are not part of it")
	require.Contains(t, d.must("setup", "log"), "installed")
	test := fmt.Sprintf(`set -e
		test "$(stat -c %%s node_modules/left/index.js)" = 200000; test ! -e node_modules/stale
		test "$(cat .venv/path)" = %q; test "$(pwd)" = %q
		test -z "$(git status --porcelain)"; test "$(cat docs/guide.md)" = guide; test ! -e notes.txt; test ! -e src/.gitignore`, repo, repo)
	for _, name := range []string{"bob", "cat"} {
		d.add(name)
		d.sh(name, test)
		require.Equal(t, top, d.topMount(name))
	}
	d.sh("ann", test)
	d.must("agents", "add", "reader", "--base", "custom", "--read-only")
	d.sh("reader", "test -s node_modules/pad/index.js")
	require.Len(t, glob(d.path("ws", ".polis", "setups", "*")), 1, "once on the disk")

	// Two names of one file are files of their own.
	d.sh("ann", `set -e; cd node_modules/left; test "$(stat -c %h index.js linked.js | tr '\n' ' ')" = "1 1 "
		cp index.js before; echo mine >> linked.js; cmp before index.js; ln index.js third; echo more >> third; cmp index.js third; rm before third linked.js`)
	d.sh("bob", `cmp node_modules/left/index.js node_modules/left/linked.js`)

	// An agent's changes are its own, and all that it has on the disk.
	d.sh("ann", `echo mine > node_modules/left/index.js; rm -r node_modules/pad; mv node_modules/left node_modules/moved; echo new > node_modules/new`)
	d.sh("bob", test)
	d.must("agents", "stop", "ann")
	d.must("agents", "start", "ann")
	d.sh("ann", `test "$(cat node_modules/moved/index.js)" = mine; test ! -e node_modules/pad; test -e node_modules/new`)
	d.must("agents", "stop", "cat")
	require.Empty(t, d.own("cat"))
	d.must("agents", "fork", "ann", "dan")
	d.sh("dan", "test -e node_modules/left/index.js || test -e node_modules/moved/index.js")

	// Other inputs: it is made again, in the background. The agents keep what they have.
	d.sh("bob", ident+"echo third >> deps.lock; git commit -qam 'one more'")
	d.must("merge", "bob")
	d.eventually("the setup of the new inputs", func() bool { r := d.current(); return r != nil && r.ID != first.ID })
	d.add("eve")
	d.sh("eve", "test -s node_modules/third/index.js; test -z \"$(git status --porcelain)\"")
	d.sh("bob", "test ! -e node_modules/third")
	// Another commit with the same inputs has the same result.
	d.sh("eve", ident+"echo more >> main.txt; git commit -qam 'no other inputs'")
	d.must("merge", "eve")
	d.add("fay")
	require.Len(t, d.setupStatus().Results, 2)
	require.Contains(t, d.current().Agents, "fay")

	// What fails is an event with its log, and agents start without.
	d.sh("fay", ident+"echo broken >> deps.lock; git commit -qam 'a missing package'")
	d.must("merge", "fay")
	d.eventually("the setup to fail", func() bool { return d.setupStatus().State == api.SetupFailed })
	s := d.setupStatus()
	require.Contains(t, s.Error, "exit code 7")
	require.Contains(t, readFile(s.Log), "no such package: broken")
	require.Contains(t, d.must("events", "--json"), api.EventSetupFailed)
	require.Contains(t, d.must("agents", "add", "gus", "--base", "custom", "--wait-setup"), "starts without the files of the setup command")
	d.sh("gus", "test ! -e node_modules/left")

	// What no agent uses is removed, except the latest.
	for _, name := range []string{"ann", "bob", "cat", "dan", "reader", "eve", "fay", "gus"} {
		d.must("agents", "remove", name, "--force")
	}
	d.must("maintenance", "--now")
	require.Len(t, d.setupStatus().Results, 1)
	require.NotEqual(t, first.ID, d.setupStatus().Results[0].ID)
}

// The command is the repository's code: it reaches nothing outside of its sandbox, and what it leaves
// is harmless.
func TestASetupCommandIsConfined(t *testing.T) {
	d, _ := prepared(t, options{}, "disk_mb = 8\ntimeout = \"20s\"\n")
	d.must("setup", "run")
	ws := d.path("ws", ".polis")
	for name, script := range map[string]string{
		"the workspace":  fmt.Sprintf("! ls %s; ! touch %s/x; ! cat /etc/shadow; mkdir -p node_modules; echo ok > node_modules/ok", ws, d.path("ws")),
		"special files":  "mkdir -p node_modules; mkfifo node_modules/pipe; ln -s /etc/passwd node_modules/link; cp /bin/true node_modules/suid; chmod 4755 node_modules/suid; ln node_modules/suid node_modules/second; (umask 0; mkdir node_modules/open)",
		"tracked files":  "rm -rf src; ln -s /etc src; rm -rf docs; mkdir docs; mkdir -p node_modules; echo x > node_modules/x; echo '!node_modules' > .gitignore; rm .git -rf; mkdir .git; echo evil > .git/config",
		"the network":    "mkdir -p node_modules; echo x > node_modules/x; getent hosts packages.example.org && exit 9; exit 0",
		"left processes": "mkdir -p node_modules; echo x > node_modules/x; (while :; do echo more >> node_modules/x; done) & exit 0",
	} {
		d.must("agents", "add", "tmp", "--base", "custom")
		d.sh("tmp", fmt.Sprintf("%secho '%s' >> deps.lock; cat > ci.sh <<'EOF'\n%s\nEOF\ngit commit -qam 'hostile'", ident, name, script))
		d.must("merge", "tmp")
		d.must("agents", "remove", "tmp", "--force")
		r := d.ctl("setup", "run")
		require.Zero(t, r.code, "%s: %s\n%s", name, r, d.ctl("setup", "log"))
		d.must("agents", "add", "tmp", "--base", "custom")
		d.sh("tmp", "test -z \"$(git status --porcelain)\"; test \"$(cat src/a.txt docs/guide.md)\" = \"$(printf 'a\\nguide')\"; ls node_modules | grep -q .")
		switch name {
		case "special files":
			d.sh("tmp", "test ! -e node_modules/pipe; test -x node_modules/second; test \"$(stat -c %a node_modules/suid)\" = 755; test \"$(readlink node_modules/link)\" = /etc/passwd")
		case "the network":
			require.Contains(t, d.must("setup", "log"), `refused the name "packages.example.org`)
		case "left processes":
			d.sh("tmp", "a=$(stat -c %s node_modules/x); sleep 0.3; test $a = $(stat -c %s node_modules/x)")
		}
		d.must("agents", "remove", "tmp", "--force")
	}
	for script, why := range map[string]string{
		"mkdir -p node_modules; head -c 20000000 /dev/zero > node_modules/big; sleep 5": "more than 8 MiB",
		"echo nothing": "made no file that git ignores",
	} {
		d.must("agents", "add", "tmp", "--base", "custom")
		d.sh("tmp", fmt.Sprintf("%secho '%s' >> deps.lock; echo '%s' > ci.sh; git commit -qam 'too much'", ident, why, script))
		d.must("merge", "tmp")
		d.must("agents", "remove", "tmp", "--force")
		e := d.refused(api.CodeSetupFailed, "setup", "run")
		require.Contains(t, e.Message, why)
	}
	require.Empty(t, glob(filepath.Join(ws, "setups", "*.new")))
	require.Zero(t, d.overlays())
}

// TestPolisdDiesWhileASetupRuns at every step of it: the next start removes what is left and runs it
// again.
func TestPolisdDiesWhileASetupRuns(t *testing.T) {
	d, _ := prepared(t, options{failpoints: true}, "")
	d.eventually("the setup", func() bool { return d.setupStatus().State == api.SetupReady })
	again := func() result { return d.ctl("setup", "run", "--again") }
	for _, step := range []string{"setup:directory", "setup:mounted", "setup:running", "setup:ran", "setup:collected", "setup:recorded", "setup:renamed", "setup:retired"} {
		d.dieAt(step, again)
		require.Empty(t, d.report().Errors, step)
		d.eventually("the rest of the run to be removed after "+step, func() bool {
			return len(glob(d.path("ws", ".polis", "setups", "*.new")))+len(glob(d.path("run", "agents", "polis-setup-*")))+len(glob(d.path("run", "netns", "polis-setup-*"))) == 0
		})
		require.Zero(t, d.overlays(), step)
		d.must("agents", "add", "ann", "--base", "custom", "--wait-setup")
		d.sh("ann", "test -s node_modules/pad/index.js; test -z \"$(git status --porcelain)\"")
		d.must("agents", "remove", "ann", "--force")
		require.Zero(t, again().code, step)
	}
	d.must("maintenance", "--now")
	left := glob(d.path("ws", ".polis", "setups", "*"))
	require.LessOrEqual(t, len(left), 2, "%s", strings.Join(left, " "))
}
