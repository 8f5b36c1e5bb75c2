package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/e2e/world"
)

// object returns the name of the LFS object with a content.
func object(content string) string {
	sum := sha256.Sum256([]byte(content))
	oid := hex.EncodeToString(sum[:])
	return filepath.Join(oid[:2], oid[2:4], oid)
}

// withLFS makes a project with one object, and returns its path and that of its objects.
func (d *daemon) withLFS() (project, objects string) {
	d.t.Helper()
	project = d.smallRepo()
	require.NoError(d.t, chownAll(project, 0))
	sum := sha256.Sum256([]byte("owner\n"))
	d.write("src/.gitattributes", "*.bin filter=lfs -text\n")
	d.write("src/owner.bin", fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%x\nsize 6\n", sum))
	git(d.t, project, "add", "-A")
	git(d.t, project, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "lfs")
	objects = filepath.Join(project, ".git", "lfs", "objects")
	require.NoError(d.t, os.MkdirAll(filepath.Dir(filepath.Join(objects, object("owner\n"))), 0o755))
	require.NoError(d.t, os.WriteFile(filepath.Join(objects, object("owner\n")), []byte("owner\n"), 0o644))
	d.giveAway(project)
	return project, objects
}

// installs has the git of an agent use git-lfs if this machine has it (POLIS_E2E_GIT_LFS, or in the PATH), else the filter.
func (d *daemon) installs(agent string) {
	d.t.Helper()
	program := os.Getenv("POLIS_E2E_GIT_LFS")
	if program == "" {
		program, _ = exec.LookPath("git-lfs")
	}
	if program != "" {
		d.t.Logf("with %s", program)
		require.NoError(d.t, os.WriteFile(d.home(agent, "git-lfs"), []byte(readFile(program)), 0o755))
		require.NoError(d.t, os.Chown(d.home(agent, "git-lfs"), owner, owner))
		d.sh(agent, ident+`git config filter.lfs.clean "$HOME/git-lfs clean -- %f"; git config filter.lfs.smudge "$HOME/git-lfs smudge -- %f"; git config filter.lfs.process "$HOME/git-lfs filter-process"; git config filter.lfs.required true; git config core.hooksPath /dev/null`) // its hooks need it in the PATH
		return
	}
	require.NoError(d.t, os.WriteFile(d.home(agent, "lfs-filter"), []byte(world.LFSStandIn), 0o755))
	require.NoError(d.t, os.Chown(d.home(agent, "lfs-filter"), owner, owner))
	d.sh(agent, ident+`git config filter.lfs.clean "$HOME/lfs-filter clean"; git config filter.lfs.smudge "$HOME/lfs-filter smudge"; git config filter.lfs.required true`)
}

// TestLFSObjectsComeHomeWithAMerge: what merged commits name is in the project before its agent can go.
func TestLFSObjectsComeHomeWithAMerge(t *testing.T) {
	d := startDaemon(t, options{})
	project, objects := d.withLFS()
	d.must("up", "--repo", project, d.path("ws"))
	d.add("alice")
	d.installs("alice")
	require.Equal(t, "owner\n", d.sh("alice", "rm owner.bin; git checkout -q owner.bin; cat owner.bin"), "the project's objects are there without a network")
	require.NotZero(t, d.exec("alice", "sh", "-c", "echo x > "+d.path("ws", ".polis", "lfs", "objects", "x")).code, "they are read-only")
	d.sh("alice", "echo one > new.bin; git add new.bin; git commit -qm one; echo two > new.bin; git add new.bin; git commit -qm two; echo never > no.bin; git add no.bin; git rm -qf --cached no.bin; rm no.bin")
	d.must("merge", "alice")
	for _, content := range []string{"one\n", "two\n"} {
		require.Equal(t, content, readFile(filepath.Join(objects, object(content))))
		require.EqualValues(t, owner, statOf(t, filepath.Join(objects, object(content))).Uid)
	}
	require.NoFileExists(t, filepath.Join(objects, object("never\n")), "nothing names it")
	d.must("agents", "remove", "alice")

	// What is changed is changed.
	d.add("dora")
	d.installs("dora")
	d.sh("dora", "git checkout -q HEAD .; rm owner.bin; git checkout -q owner.bin; echo onwer > owner.bin")
	require.Contains(t, d.refused(api.CodeUnsavedWork, "agents", "remove", "dora").Message, "1 changed file")

	// What is not what its name says is not merged.
	d.add("mallory")
	d.installs("mallory")
	d.sh("mallory", `echo good > evil.bin; git add evil.bin; git commit -qm evil; f=$(git rev-parse --git-common-dir)/lfs/objects/`+object("good\n")+`; echo evil > $f`)
	before := git(t, project, "rev-parse", "main")
	e := d.refused(api.CodeWorktreeFailed, "merge", "mallory")
	require.Contains(t, e.Message, "its content is not that of its name")
	require.Contains(t, e.Hint, "polisctl agents exec mallory -- git lfs fsck")
	require.Equal(t, before, git(t, project, "rev-parse", "main"))
	require.NoFileExists(t, filepath.Join(objects, object("good\n")))

	// An object that is lost later is noticed.
	d.add("bob")
	d.installs("bob")
	d.sh("bob", "echo bob > bob.bin; git add bob.bin; git commit -qm bob")
	d.must("merge", "bob")
	require.NoError(t, os.Remove(filepath.Join(objects, object("bob\n"))))
	e = d.refused(api.CodeUnsavedWork, "agents", "remove", "bob")
	require.Contains(t, e.Message, `"lfs/objects": 1 object of Git LFS that the target names`)
	d.sh("bob", "mkdir -p $(git rev-parse --git-common-dir)/annex/objects/x")
	require.Contains(t, d.refused(api.CodeUnsavedWork, "agents", "remove", "bob").Message, "git-annex has contents")

	// A file whose object nobody has any more is the only copy.
	d.add("erin")
	d.installs("erin")
	d.sh("erin", "echo erin > erin.bin; git add erin.bin; git commit -qm erin")
	d.must("merge", "erin")
	require.NoError(t, os.Remove(filepath.Join(objects, object("erin\n"))))
	d.sh("erin", "rm -f $(git rev-parse --git-common-dir)/lfs/objects/"+object("erin\n")+"; touch erin.bin")
	require.Contains(t, d.refused(api.CodeUnsavedWork, "agents", "remove", "erin").Message, "1 changed file")

	// An agent whose rules withhold files sees none of the objects: some can be of these files.
	d.add("carol", "--deny", "secret/**")
	require.NotZero(t, d.exec("carol", "test", "-e", d.path("ws", ".polis", "lfs", "objects", object("owner\n"))).code)
}

// TestLFSObjectsAreSavedAndForked: the trash and a fork have the objects that only the agent has.
func TestLFSObjectsAreSavedAndForked(t *testing.T) {
	d := startDaemon(t, options{})
	project, objects := d.withLFS()
	d.must("up", "--repo", project, d.path("ws"))
	d.add("alice")
	d.installs("alice")
	d.sh("alice", "echo one > one.bin; git add one.bin; git commit -qm one; echo two > two.bin; git add two.bin")
	has := func(name string) {
		for _, content := range []string{"one\n", "two\n"} {
			at := d.path("ws", ".polis", "private", name, "lfs", "objects", object(content))
			require.Equal(t, content, readFile(at), name)
			require.EqualValues(t, owner, statOf(t, at).Uid)
		}
	}
	d.fork("alice", "second")
	has("second")
	d.must("agents", "remove", "alice", "--force")
	d.must("restore", "alice")
	has("alice")
	d.must("agents", "start", "alice")
	d.installs("alice")
	require.Equal(t, "one\ntwo\n", d.sh("alice", "rm one.bin two.bin; git checkout -q one.bin two.bin; cat one.bin two.bin"))
	d.sh("alice", "git commit -qm two")
	d.must("merge", "alice")
	require.Equal(t, "two\n", readFile(filepath.Join(objects, object("two\n"))))
	require.Contains(t, strings.Join(glob(d.path("ws", ".polis", "trash", "*.nested", "lfs", "*", "*", "*")), " "), filepath.Base(object("one\n")))
}
