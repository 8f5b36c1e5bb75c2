package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// The owner of a project, who is in no group of polis, and a user whose files the owner wants.
const (
	mallory = 4321
	victim  = 4322
)

// exchangers has a project of mallory's at ann/a/project, and projects of the victim and of root that mallory knows
// the paths of.
type exchangers struct {
	*daemon
	project string
	before  string // what is in the directories of others
}

const theirSecret = "secret-of-the-victim"

func newExchangers(t *testing.T, plain bool) *exchangers {
	x := exchangersOf(startDaemon(t, options{}), plain)
	x.must("up", "--repo", x.project, x.path("ws"))
	return x
}

// exchangersOf makes the projects for a daemon that has no workspace yet.
func exchangersOf(d *daemon, plain bool) *exchangers {
	t := d.t
	x := &exchangers{daemon: d, project: d.path("mallory/a/project")}
	for who, uid := range map[string]int{"mallory": mallory, "victim": victim, "root": 0} {
		dir := d.path(who, "a/project")
		require.NoError(t, os.MkdirAll(dir, 0o755))
		for name, text := range map[string]string{"main.txt": "one\n", ".gitignore": "node_modules/\n.env\n", "node_modules/x.js": "x\n"} {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		if who != "mallory" {
			// It is world-readable in a directory that is not.
			require.NoError(t, os.WriteFile(filepath.Join(dir, ".env"), []byte(theirSecret+"\n"), 0o644))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "other.txt"), []byte(theirSecret+"\n"), 0o644))
			require.NoError(t, os.Chmod(d.path(who), 0o700))
		}
		if !plain {
			git(t, dir, "init", "-q", "-b", "main")
			git(t, dir, "add", "-A")
			cmd := exec.Command("git", "-c", "safe.directory=*", "-c", "user.name=x", "-c", "user.email=x@example.com", "-C", dir, "commit", "-qm", "start")
			cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			// A git that runs with the configuration of this repository leaves a file.
			git(t, dir, "config", "credential.helper", "!touch "+d.path("ran-as-")+who+"-$(id -u); echo password="+theirSecret)
			git(t, dir, "remote", "add", "origin", "https://127.0.0.1:1/x.git")
		}
		require.NoError(t, filepath.WalkDir(d.path(who), func(p string, _ fs.DirEntry, err error) error {
			require.NoError(t, err)
			return os.Lchown(p, uid, uid)
		}))
	}
	x.before = x.others()
	require.NoError(t, os.Mkdir(d.path("mallory/a/own"), 0o755))
	require.NoError(t, os.Lchown(d.path("mallory/a/own"), mallory, mallory))
	return x
}

// others returns everything about the files of the victim and of root.
func (x *exchangers) others() string {
	var out strings.Builder
	for _, who := range []string{"victim", "root"} {
		require.NoError(x.t, filepath.WalkDir(x.path(who), func(p string, e fs.DirEntry, err error) error {
			require.NoError(x.t, err)
			fi, err := os.Lstat(p)
			require.NoError(x.t, err)
			text := ""
			if e.Type().IsRegular() {
				text = readFile(p)
			}
			st := fi.Sys().(*syscall.Stat_t)
			fmt.Fprintf(&out, "%s %v %d:%d %q\n", p, fi.Mode(), st.Uid, st.Gid, text)
			return nil
		}))
	}
	return out.String()
}

// asMallory does what the owner of the project can do.
func (x *exchangers) asMallory(script string) {
	x.t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = x.path("mallory")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: mallory, Gid: mallory, Groups: []uint32{}}}
	out, err := cmd.CombinedOutput()
	require.NoError(x.t, err, "%s: %s", script, out)
}

// untouched requires that nothing of others was changed, and that nothing ran with their rights or configuration.
func (x *exchangers) untouched() {
	x.t.Helper()
	require.Equal(x.t, x.before, x.others())
	ran, err := filepath.Glob(x.path("ran-as-*"))
	require.NoError(x.t, err)
	require.Empty(x.t, ran)
}

// exchanges are the ways to put something else at the path of the project, and back.
var exchanges = map[string][2]string{
	"a link to the victim's":         {"mv a/project a/away; ln -s ../../victim/a/project a/project", "rm a/project; mv a/away a/project"},
	"a link to root's":               {"mv a/project a/away; ln -s ../../root/a/project a/project", "rm a/project; mv a/away a/project"},
	"a link above to the victim's":   {"mv a away; ln -s ../victim/a a", "rm a; mv away a"},
	"a link above to root's":         {"mv a away; ln -s ../root/a a", "rm a; mv away a"},
	"another directory of mallory's": {"mv a/project a/away; mv a/own a/project", "mv a/project a/own; mv a/away a/project"},
	"nothing":                        {"mv a/project a/away", "mv a/away a/project"},
}

// verbs are commands that a person gives, or a program of the agent's, while another directory is there.
func (x *exchangers) verbs(plain bool) {
	x.t.Helper()
	x.refused(api.CodeProjectChanged, "agents", "add", "eve", "--base", "custom", "--", "true")
	require.NotZero(x.t, x.ctl("up", "--repo", x.project, x.path("ws")).code)
	for _, args := range [][]string{{"agents", "run", "alice", "cat .env other.txt; echo more >> main.txt"}, {"agents", "stop", "alice"}, {"agents", "start", "alice"},
		{"status"}, {"agents", "diff", "alice"}, {"doctor"}, {"patrol", "run", "--once"}, {"gc"}} {
		r := x.ctl(args...)
		require.NotContains(x.t, r.stdout+r.stderr, theirSecret, "%v", args)
	}
	if plain {
		return
	}
	for _, args := range [][]string{{"merge", "alice", "--accept-protected"}, {"revert", "alice"}, {"agents", "pr", "alice"}, {"agents", "rebase", "alice"}, {"conflicts"}} {
		r := x.ctl(args...)
		require.NotContains(x.t, r.stdout+r.stderr, theirSecret, "%v", args)
	}
	r := x.exec("alice", "sh", "-c", "git fetch origin; git ls-remote origin; cat .env other.txt; grep -r "+theirSecret+" .")
	require.NotContains(x.t, r.stdout, theirSecret)
}

// TestTheOwnerOfAProjectGetsNothingOfOthers: the owner puts links and other directories at the project's path, and
// above it. No verb reads, writes or removes a file of another user, or runs anything as another user, also after a
// restart of polisd. When the project is back, everything continues.
func TestTheOwnerOfAProjectGetsNothingOfOthers(t *testing.T) {
	for name, plain := range map[string]bool{"git": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			x := newExchangers(t, plain)
			x.add("alice")
			x.sh("alice", "echo two >> main.txt")
			if !plain {
				x.sh("alice", "git commit -qam two")
			}
			for how, do := range exchanges {
				x.asMallory(do[0])
				t.Log(how)
				x.verbs(plain)
				x.untouched()
				x.stop()
				x.start()
				require.Contains(t, x.must("status"), "is not the recorded one")
				x.refused(api.CodeWorkspaceNotFound, "agents", "add", "eve", "--base", "custom", "--", "true")
				x.untouched()
				x.asMallory(do[1])
				x.must("up", "--repo", x.project, x.path("ws"))
				x.must("agents", "start", "alice")
				require.Contains(t, x.sh("alice", "cat main.txt"), "two\n")
			}
			if !plain {
				x.must("merge", "alice")
				require.Contains(t, readFile(filepath.Join(x.project, "main.txt")), "two\n")
			}
			x.untouched()
		})
	}
}

// TestExchangesWhileVerbsRun: the owner exchanges the project, and the directory above it, in a loop.
func TestExchangesWhileVerbsRun(t *testing.T) {
	for name, plain := range map[string]bool{"git": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			x := newExchangers(t, plain)
			x.asMallory("ln -s ../../victim/a/project a/link; ln -s ../victim/a link")
			done, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for i := 0; ; i++ {
					select {
					case <-done:
						return
					case <-time.After(time.Duration(i%7) * time.Millisecond):
					}
					a, b := "mallory/a/project", "mallory/a/link"
					if i/2%2 == 1 {
						a, b = "mallory/a", "mallory/link"
					}
					// Twice the same pair: it is back every second time.
					_ = unix.Renameat2(unix.AT_FDCWD, x.path(a), unix.AT_FDCWD, x.path(b), unix.RENAME_EXCHANGE)
				}
			}()
			added := 0
			for i := range 12 {
				name := fmt.Sprintf("agent%d", i)
				if r := x.ctl("agents", "add", name, "--base", "custom"); r.code == 0 {
					added++
					out := x.exec(name, "sh", "-c", "cat .env other.txt; echo "+name+" >> main.txt; git commit -qam x")
					require.NotContains(t, out.stdout, theirSecret)
					r := x.ctl("merge", name)
					require.NotContains(t, r.stdout+r.stderr, theirSecret)
				}
				x.ctl("agents", "remove", name, "--force")
			}
			close(done)
			<-stopped
			x.untouched()
			t.Logf("%d of 12 agents were added", added)
		})
	}
}

// TestAProjectMovesByAPersonsWord: workspace move, and what it refuses.
func TestAProjectMovesByAPersonsWord(t *testing.T) {
	x := newExchangers(t, false)
	x.add("alice")
	x.sh("alice", "echo two >> main.txt; git commit -qam two")
	x.asMallory("mv a/project moved")
	x.refused(api.CodeProjectChanged, "merge", "alice")
	e := x.refused(api.CodeBadState, "workspace", "move", "ws", x.path("mallory/moved"))
	require.Contains(t, e.Message, "alice")
	x.must("agents", "stop", "alice")
	e = x.refused(api.CodeWorkspaceInvalid, "workspace", "move", "ws", x.path("victim/a/project"))
	require.Contains(t, e.Message, "belongs to uid 4322")
	e = x.refused(api.CodeWorkspaceInvalid, "workspace", "move", "ws", x.path("mallory/a/own"))
	require.Contains(t, e.Message, "is not a git repository")
	x.asMallory("git -c init.defaultBranch=main init -q other; git -C other -c user.name=x -c user.email=x@example.com commit -q --allow-empty -m other")
	e = x.refused(api.CodeWorkspaceInvalid, "workspace", "move", "ws", x.path("mallory/other"))
	require.Contains(t, e.Message, "another repository")
	x.refused(api.CodeWorkspaceNotFound, "workspace", "move", "nosuch", x.path("mallory/moved"))
	require.Contains(t, x.must("workspace", "move", "ws", x.path("mallory/moved")), x.path("mallory/moved"))
	x.must("merge", "alice")
	require.Equal(t, "one\ntwo\n", readFile(x.path("mallory/moved/main.txt")))
	x.must("agents", "start", "alice")
	require.Equal(t, x.path("mallory/moved")+"\n", x.sh("alice", "pwd"))
	projectEvent := func() {
		require.Contains(t, x.must("--json", "events"), `"`+api.EventProject+`"`)
	}
	projectEvent()
	// After a restart, too; and a clone in its place.
	x.stop()
	x.asMallory("mv moved old; git clone -q old moved")
	x.start()
	require.Contains(t, x.must("status"), "another directory is at")
	x.must("workspace", "move", "ws", x.path("mallory/moved"))
	x.must("agents", "start", "alice")
	require.Equal(t, "one\ntwo\n", x.sh("alice", "cat main.txt"))
	projectEvent()
	x.untouched()
}
