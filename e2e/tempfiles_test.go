package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// savers are programs that save a file by a temporary one, and what they do to a file with the line "one".
var savers = []struct {
	name, needs, script, want string
	// notAbove: an overlay above the view does it in two steps, of which the first is refused.
	notAbove bool
}{
	{name: "patch", needs: "patch", script: `printf -- '--- F\n+++ F\n@@ -1 +1 @@\n-one\n+patched\n' | patch F`, want: "patched\n"},
	{name: "patch with a backup", needs: "patch", script: `printf -- '--- F\n+++ F\n@@ -1 +1 @@\n-one\n+patched\n' | patch -b F; test "$(cat F.orig)" = one; rm F.orig`, want: "patched\n"},
	{name: "perl -pi", needs: "perl", script: `perl -pi -e s/one/perl/ F`, want: "perl\n"},
	{name: "perl -pi with a backup", needs: "perl", script: `perl -pi.bak -e s/one/perl/ F; test "$(cat F.bak)" = one; rm F.bak`, want: "perl\n"},
	{name: "rsync", needs: "rsync", script: `echo rsync > /tmp/F; rsync --checksum /tmp/F F`, want: "rsync\n"},
	{name: "sed -i", needs: "sed", script: `sed -i s/one/sed/ F`, want: "sed\n"},
	{name: "sed -i with a backup", needs: "sed", script: `sed -i.bak s/one/sed/ F; test "$(cat F.bak)" = one; rm F.bak`, want: "sed\n"},
	{name: "gofmt", needs: "gofmt", script: `echo 'package   one' > F; gofmt -w F`, want: "package one\n"},
	{name: "clang-format", needs: "clang-format", script: `echo 'int   one ;' > F; clang-format -i F`, want: "int one;\n"},
	{name: "tempfile and replace", needs: "python3", script: `/usr/bin/python3 -c '
import os, sys, tempfile
fd, name = tempfile.mkstemp(dir=".")
with os.fdopen(fd, "w") as f:
    f.write("python\n"); f.flush(); os.fsync(fd)
os.chmod(name, 0o644)
os.replace(name, "F")'`, want: "python\n"},
	{name: "an IDE's safe write", needs: "sh", script: `echo ide > F___jb_tmp___; mv F F___jb_old___; mv F___jb_tmp___ F; rm F___jb_old___`, want: "ide\n"},
	{name: "a link", needs: "sh", script: `echo linked > new; mv F old; ln new F; rm new old`, want: "linked\n", notAbove: true},
	{name: "in place", needs: "sh", script: `echo place > F`, want: "place\n"},
}

// upSavers puts a project with a file for each program under polis, and adds an agent that may write these alone.
func (d *daemon) upSavers() (project string) {
	d.t.Helper()
	project = d.smallRepo()
	var flags []string
	for i := range savers {
		name := fmt.Sprintf("src/f%d.c", i)
		require.NoError(d.t, os.WriteFile(filepath.Join(project, name), []byte("one\n"), 0o644))
		flags = append(flags, "--write", name)
	}
	require.NoError(d.t, os.WriteFile(filepath.Join(project, "src/other"), []byte("other\n"), 0o644))
	git(d.t, project, "add", "-A")
	git(d.t, project, "commit", "-qm", "files")
	d.giveAway(project)
	d.must("up", "--repo", project, d.path("ws"))
	d.add("alice", flags...)
	return project
}

func worktreeOrders() map[string]string {
	return map[string]string{
		"full":   "[workspace]\nworktree = \"full\"\n",
		"shared": "[workspace]\nworktree = \"shared\"\nlayers = \"view\"\n",
		"above":  "[workspace]\nworktree = \"shared\"\nlayers = \"auto\"\n",
	}
}

// TestProgramsSaveSingleFilesByTemporaryFiles: the rules let the agent write single files of a directory, and programs
// make new names there to save them.
func TestProgramsSaveSingleFilesByTemporaryFiles(t *testing.T) {
	for order, config := range worktreeOrders() {
		t.Run(order, func(t *testing.T) {
			d := startDaemon(t, options{config: config})
			project := d.upSavers()
			for i, s := range savers {
				name := fmt.Sprintf("f%d.c", i)
				t.Run(s.name, func(t *testing.T) {
					needProgram(t, s.needs)
					if s.notAbove && order == "above" {
						return
					}
					before := d.sh("alice", "ls -A src")
					d.sh("alice", "set -e; cd src; "+strings.ReplaceAll(s.script, "F", name))
					require.Equal(t, s.want, d.sh("alice", "cat src/"+name))
					require.Equal(t, before, d.sh("alice", "ls -A src"))
				})
			}
			require.Equal(t, "other\n", d.sh("alice", "cat src/other"))
			for _, refused := range []string{
				"echo x > src/other", "mv src/other src/x", "rm src/other", "mv src/f0.c x", "mkdir src/new", "ln -s f0.c src/link", "mkfifo src/pipe",
				"echo x > src/x; mv src/x src/y", "mv src/x src/other", "ln src/x src/y", "ln src/f0.c src/z", "echo x > new", "mv src/x new",
			} {
				require.NotZero(t, d.exec("alice", "sh", "-c", refused).code, refused)
			}
			d.why("alice", "locks.temp_files")
			d.sh("alice", "rm src/x; "+ident+"git commit -qam saved")
			require.Empty(t, d.sh("alice", "git status --porcelain"))
			d.must("merge", "alice")
			for i, s := range savers {
				if got := git(t, project, "show", fmt.Sprintf("main:src/f%d.c", i)); got != "one\n" {
					require.Equal(t, s.want, got, s.name)
				}
			}
		})
	}
}

// TestWithoutTemporaryFilesSingleFilesAreWrittenInPlace: why names the key.
func TestWithoutTemporaryFilesSingleFilesAreWrittenInPlace(t *testing.T) {
	for order, config := range worktreeOrders() {
		t.Run(order, func(t *testing.T) {
			d := startDaemon(t, options{config: "[locks]\ntemp_files = false\n" + config})
			d.upSavers()
			d.sh("alice", "! perl -pi -e s/one/x/ src/f0.c || test $(cat src/f0.c) = one; echo two > src/f1.c")
			require.NotZero(t, d.exec("alice", "sh", "-c", "echo x > src/x").code)
			d.why("alice", "locks.temp_files")
			require.Equal(t, "one\ntwo\n", d.sh("alice", "cat src/f0.c src/f1.c"))
		})
	}
}

// TestTemporaryFilesOfAStoppedAgent: what contains nothing goes, the only copy of something stays, and is the agent's
// also after the next start.
func TestTemporaryFilesOfAStoppedAgent(t *testing.T) {
	for order, config := range worktreeOrders() {
		t.Run(order, func(t *testing.T) {
			d := startDaemon(t, options{config: config})
			d.upSavers()
			d.sh("alice", `cd src
: > empty
echo two > f0.c; cp f0.c copy
mv f1.c gone
mv f2.c old; echo new > f2.c
mv f3.c same; echo one > f3.c
echo only > made`)
			d.must("agents", "stop", "alice")
			d.must("agents", "start", "alice")
			got := strings.Fields(d.sh("alice", "cd src; for n in empty copy gone old same made; do test -e $n && echo $n; done; true"))
			require.Subset(t, got, []string{"gone", "old", "made"})
			if order != "above" { // there the files of the base tree may be the others
				require.Equal(t, []string{"gone", "old", "made"}, got)
			}
			require.NotContains(t, got, "empty")
			require.Equal(t, "one\none\nonly\n", d.sh("alice", "cd src; cat gone old made"))
			require.NotZero(t, d.exec("alice", "sh", "-c", "mv src/gone src/other").code)
			d.sh("alice", "cd src; mv gone f1.c; rm old made; cat f1.c")
		})
	}
}

// TestTemporaryFilesSurviveTheirShim: their marks are on the disk.
func TestTemporaryFilesSurviveTheirShim(t *testing.T) {
	d := startDaemon(t, options{config: worktreeOrders()["full"]})
	d.upSavers()
	d.sh("alice", "cd src; echo x > made; mv f0.c old")
	d.killShims()
	d.upAgain("alice")
	require.NotZero(t, d.exec("alice", "sh", "-c", "mv src/made src/other").code)
	require.NotZero(t, d.exec("alice", "sh", "-c", "rm src/other").code)
	d.sh("alice", "cd src; mv made f0.c; rm old; test $(cat f0.c) = x")
}
