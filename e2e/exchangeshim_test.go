package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// exchanging exchanges two names until the returned function is called, with the rights of nobody but this test: both
// are in a directory of mallory's.
func (x *exchangers) exchanging(dir, a, b string) (stop func()) {
	at, err := os.Open(dir)
	require.NoError(x.t, err)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(i%5) * 200 * time.Microsecond):
				_ = unix.Renameat2(int(at.Fd()), a, int(at.Fd()), b, unix.RENAME_EXCHANGE)
			}
		}
	}()
	return func() { close(done); <-stopped; at.Close() }
}

// TestTheOwnerOfTheSharedRepositoryShowsNothingOfOthers: its directories belong to the owner of the project, who puts
// links in their place while agents start.
func TestTheOwnerOfTheSharedRepositoryShowsNothingOfOthers(t *testing.T) {
	x := newExchangers(t, false)
	x.add("alice")
	bare := x.path("ws/.polis/bare-repo.git")
	published := x.path("ws/.polis/published")
	seen := func() {
		r := x.exec("alice", "sh", "-c", "cat "+published+"/.env "+published+"/a/project/.env; ls -a "+published)
		require.NotContains(t, r.stdout, theirSecret)
		require.NotContains(t, r.stdout, "other.txt")
	}
	x.must("agents", "stop", "alice")
	for _, who := range []string{"victim", "root"} {
		x.asMallory(fmt.Sprintf("cd %s; mv objects away; ln -s %s objects", bare, x.path(who, "a/project")))
		require.NotZero(t, x.ctl("agents", "start", "alice").code)
		x.asMallory(fmt.Sprintf("cd %s; rm objects; mv away objects", bare))
	}
	x.asMallory(fmt.Sprintf("cd %s; ln -s %s link", bare, x.path("victim/a/project")))
	stop := x.exchanging(bare, "objects", "link")
	started := 0
	for range 8 {
		if x.ctl("agents", "start", "alice").code == 0 {
			started++
			seen()
		}
		x.ctl("agents", "stop", "alice")
	}
	stop()
	t.Logf("it started %d of 8 times", started)
	if fi, err := os.Lstat(filepath.Join(bare, "objects")); err != nil || !fi.IsDir() {
		x.asMallory(fmt.Sprintf("cd %s; mv objects link2; mv link objects; mv link2 link", bare))
	}
	x.must("agents", "start", "alice")
	seen()
	x.untouched()
}

// TestFilesOfGitInTheProjectAreItsOwners: the project's .git leads to another repository, or a pipe is in the place of
// a file that decides which files are shared.
func TestFilesOfGitInTheProjectAreItsOwners(t *testing.T) {
	x := newExchangers(t, false)
	x.add("alice")
	require.Equal(t, "x\n", x.sh("alice", "cat node_modules/x.js"), "it is shared")
	git := filepath.Join(x.project, ".git")
	for name, do := range map[string][2]string{
		"a pipe for the index":     {"mv index away; mkfifo index", "rm index; mv away index"},
		"a link for the index":     {"mv index away; ln -s " + x.path("victim/a/project/.git/index") + " index", "rm index; mv away index"},
		"commondir of the victim":  {"echo " + x.path("victim/a/project/.git") + " > commondir", "rm commondir"},
		"commondir that is a link": {"ln -s " + x.path("root/a/project/.env") + " commondir", "rm commondir"},
	} {
		t.Run(name, func(t *testing.T) {
			x.asMallory("cd " + git + "; " + do[0])
			began := time.Now()
			r := x.exec("alice", "sh", "-c", "ls -a; cat .env other.txt node_modules/x.js")
			require.NotContains(t, r.stdout, theirSecret)
			if name == "a pipe for the index" {
				require.Less(t, time.Since(began), patience, "nothing waits for the pipe")
			} else {
				x.ctl("agents", "stop", "alice")
				x.ctl("agents", "start", "alice")
			}
			r = x.exec("alice", "sh", "-c", "ls -a; cat .env other.txt node_modules/x.js")
			require.NotContains(t, r.stdout, theirSecret)
			x.asMallory("cd " + git + "; " + do[1])
			x.ctl("agents", "stop", "alice") // the kernel remembers for a moment what was not there
			x.must("agents", "start", "alice")
			require.Equal(t, "x\n", x.sh("alice", "cat node_modules/x.js"))
		})
	}
	x.untouched()
}

// TestAWorkspaceInADirectoryOfItsOwner: the owner exchanges the workspace itself, for that of another user and for one
// whose record names another user, also while polisd is not running.
func TestAWorkspaceInADirectoryOfItsOwner(t *testing.T) {
	x := exchangersOf(startDaemon(t, options{config: "[workspace]\nin_user_directories = true\n"}), false)
	x.must("up", "--repo", x.project, x.path("mallory/w"))
	hidden := x.path("hidden")
	require.NoError(t, os.Mkdir(hidden, 0o700))
	require.NoError(t, os.Chown(hidden, victim, victim))
	x.must("up", "--repo", x.path("victim/a/project"), filepath.Join(hidden, "w"))
	x.must("agents", "add", "alice", "-w", "w", "--base", "custom")
	x.sh("alice", "echo two >> main.txt; git commit -qam two; echo mine > unsaved")
	record := readFile(filepath.Join(hidden, "w/.polis/project.json"))
	untouched := func() {
		x.untouched()
		for _, dir := range []string{"worktrees", "logs", "snapshots", "bare-repo.git/worktrees"} {
			entries, err := os.ReadDir(filepath.Join(hidden, "w/.polis", dir))
			if !os.IsNotExist(err) {
				require.NoError(t, err)
			}
			require.Empty(t, entries, dir)
		}
		require.NotContains(t, readFile(filepath.Join(hidden, "w/.polis/state.json")), `"alice"`)
	}
	untouched()

	verbs := func() {
		for _, args := range [][]string{{"status"}, {"agents", "diff", "alice"}, {"snapshot", "create", "alice"}, {"agents", "start", "alice"}, {"agents", "stop", "alice"}, {"merge", "alice"},
			{"agents", "remove", "alice"}, {"agents", "add", "eve", "-w", "w", "--base", "custom"}, {"up", "--repo", x.project, x.path("mallory/w")}} {
			r := x.ctl(args...)
			require.NotContains(t, r.stdout+r.stderr, theirSecret, "%v", args)
		}
		r := x.exec("alice", "sh", "-c", "cat .env")
		require.NotContains(t, r.stdout, theirSecret)
		untouched()
	}
	for how, do := range map[string][2]string{
		"a link to the victim's": {"mv w away; ln -s ../hidden/w w", "rm w; mv away w"},
		"a record of the victim": {"mv w away; mkdir -p w/.polis; ln -s ../victim/a/project w/project; cat > w/.polis/project.json <<'END'\n" + record + "\nEND\n", "rm -r w; mv away w"},
		"a link for .polis":      {"mv w away; mkdir w; ln -s ../../hidden/w/.polis w/.polis; ln -s ../victim/a/project w/project", "rm -r w; mv away w"},
	} {
		t.Run(how, func(t *testing.T) {
			x.asMallory(do[0])
			e := x.refused(api.CodeWorkspaceInvalid, "agents", "add", "eve", "-w", "w", "--base", "custom")
			require.NotEmpty(t, e.Hint)
			x.stop()
			x.start()
			untouched()
			x.asMallory(do[1])
			x.must("up", "--repo", x.project, x.path("mallory/w"))
			x.must("agents", "start", "alice")
			require.Equal(t, "mine\n", x.sh("alice", "cat unsaved"))
		})
	}
	x.asMallory("mv w away; ln -s ../hidden/w w")
	verbs()
	x.asMallory("rm w; mv away w")

	// In the directory of another user there is no workspace.
	e := x.refused(api.CodeWorkspaceInvalid, "up", "--repo", x.path("root/a/project"), x.path("mallory/w2"))
	require.Contains(t, e.Message, "uid 4321")
	x.untouched()
}

// TestConfiguredMountsInADirectoryOfAUser: the administrator mounts a directory of the user's, who puts a link there.
func TestConfiguredMountsInADirectoryOfAUser(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "of-mallory")
	require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "data"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data/file"), []byte("data\n"), 0o644))
	for _, p := range []string{dir, filepath.Join(dir, "data")} {
		require.NoError(t, os.Chown(p, mallory, mallory))
	}
	x := exchangersOf(startDaemon(t, options{mounts: fmt.Sprintf("{ source = %q, dest = \"/srv/data\" }", filepath.Join(dir, "data"))}), false)
	x.must("up", "--repo", x.project, x.path("ws"))
	x.add("alice")
	require.Equal(t, "data\n", x.sh("alice", "cat /srv/data/file"))
	x.must("agents", "stop", "alice")
	for _, who := range []string{"victim", "root"} {
		x.asMallory(fmt.Sprintf("cd %s; mv data away; ln -s %s data", dir, x.path(who, "a/project")))
		require.NotZero(t, x.ctl("agents", "start", "alice").code)
		x.asMallory(fmt.Sprintf("cd %s; rm data; mv away data", dir))
	}
	x.asMallory(fmt.Sprintf("cd %s; mv data away; ln -s away data", dir))
	x.must("agents", "start", "alice")
	require.Equal(t, "data\n", x.sh("alice", "cat /srv/data/file"), "what the user reaches is the user's choice")
	x.untouched()
}
