package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// withSubmodule makes a project with a submodule "lib", which has one of its own, "inner", both checked out, and returns its path.
func (d *daemon) withSubmodule() string {
	d.t.Helper()
	project := d.smallRepo()
	require.NoError(d.t, chownAll(project, 0))
	d.addSubmodule(project)
	d.giveAway(project)
	return project
}

// addSubmodule gives root's project a submodule lib, which has one of its own.
func (d *daemon) addSubmodule(project string) {
	d.t.Helper()
	for _, name := range []string{"inner", "lib"} {
		dir := d.path(name)
		git(d.t, d.dir, "init", "-q", "-b", "main", dir)
		d.write(name+"/"+name+".txt", name+"\n")
		git(d.t, dir, "add", "-A")
		if name == "lib" {
			git(d.t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../inner", "deep/inner")
		}
		git(d.t, dir, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", name)
	}
	git(d.t, project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", d.path("lib"), "lib")
	git(d.t, project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive")
	git(d.t, project, "-c", "user.name=u", "-c", "user.email=u@x", "commit", "-qm", "lib")
}

// clones is a script that clones the submodules of an agent from bundles in its home: its sandbox has no network.
const clones = ident + `git -c protocol.file.allow=always -c submodule.lib.url=$HOME/lib submodule --quiet update --init lib
git -C lib config user.name a; git -C lib config user.email a@b
`

// give puts a repository in the home of an agent.
func (d *daemon) give(agent, name string) {
	d.t.Helper()
	git(d.t, d.dir, "clone", "-q", "--no-hardlinks", d.path(name), d.home(agent, name))
	require.NoError(d.t, chownAll(d.home(agent, name), owner))
}

// TestWorkInASubmoduleIsWork: what exists only in a submodule of an agent, or in another repository inside its
// worktree, is never called clean.
func TestWorkInASubmoduleIsWork(t *testing.T) {
	d := startDaemon(t, options{config: shortPatrol})
	d.must("up", "--repo", d.withSubmodule(), d.path("ws"))
	for name, c := range map[string]struct{ script, says string }{
		"clones":  {"true", ""},
		"commits": {"echo x > lib/x; git -C lib add x; git -C lib commit -qm x", `"lib": 1 commit`},
		"changes": {"echo x >> lib/lib.txt", `"lib": 1 changed file`},
		"hides":   {"echo x >> lib/lib.txt; git -C lib update-index --assume-unchanged lib.txt", `"lib": 1 changed file`},
		"makes":   {"echo x > lib/new", `"lib": 1 changed file`},
		"stashes": {"echo x >> lib/lib.txt; git -C lib stash -q", `"lib": 2 commits`},
		"leaves":  {"git -C lib checkout -qb w; echo x > lib/x; git -C lib add x; git -C lib commit -qm x; git submodule --quiet deinit -f lib", `"modules/lib": 1 commit`},
		"tags":    {"git -C lib commit -q --allow-empty -m x; git -C lib tag t; git -C lib checkout -q HEAD~1", `"lib": 1 commit`},
		"files":   {"git submodule --quiet deinit -f lib; mkdir -p lib; echo x > lib/x", `"lib": the directory of a submodule that has no repository has files`},
	} {
		flags := []string{}
		if name == "clones" || name == "hides" { // their directories are empty at first
			flags = []string{"--deny", "secret/**"}
		}
		d.temp(name, flags...)
		d.give(name, "lib")
		d.task(name, clones+c.script)
		d.settled(name)
		var got *api.Cleanup
		d.eventually(name+" is over", func() bool {
			_, there := d.agent(name)
			got = d.cleanup(name)
			return got != nil || !there
		})
		if c.says == "" {
			_, there := d.agent(name)
			require.False(t, there, "a submodule that was only cloned is no work: %+v", got)
			continue
		}
		require.NotEqual(t, api.CleanupRemove, got.Action, "%s: %+v", name, got)
		e := d.refused(api.CodeUnsavedWork, "agents", "remove", name)
		require.Contains(t, e.Message, c.says, name)
		require.NotEmpty(t, e.Details["nested"], name)
		if path := strings.Split(c.says, `"`)[1]; path == "lib" {
			require.Contains(t, d.must("agents", "diff", name), `# polis: "lib" has work in a repository of its own`, name)
		}
		d.must("agents", "remove", name, "--force")
	}
}

// TestEmptySubmodulesAreSaid: an agent whose submodules are empty gets a notice, with the command that fills them.
func TestEmptySubmodulesAreSaid(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.withSubmodule()
	require.NoError(t, chownAll(project, 0))
	git(t, project, "submodule", "--quiet", "deinit", "-f", "lib")
	require.NoError(t, os.RemoveAll(filepath.Join(project, ".git", "modules")))
	d.giveAway(project)
	require.Contains(t, d.ctl("up", "--repo", project, d.path("ws")).String(), `the project has 1 submodule ("lib") whose directories are empty in agents, because`)
	var a api.Agent
	decode(t, d.must("--json", "agents", "add", "alice", "--base", "custom", "--", "true"), &a)
	require.Len(t, a.Warnings, 1)
	require.Contains(t, a.Warnings[0], `the project has 1 submodule ("lib") whose directories are empty in agent alice: git submodule update --init --recursive in the project`)
	require.NoError(t, chownAll(project, 0))
	git(t, project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", "--recursive")
	d.giveAway(project)
	d.must("agents", "stop", "alice")
	d.must("agents", "start", "--program", "alice")
	require.Equal(t, "lib\n", d.sh("alice", "cat lib/lib.txt; test -z \"$(git status --porcelain)\""))
	require.NotContains(t, d.ctl("up", "--repo", project, d.path("ws")).String(), "empty")
}

// TestSubmodulesAreThereWithoutANetwork: what the project has of its submodules is in agents, at the pinned commits,
// nested ones too, in forks and restored agents, and nothing of it can be changed for others.
func TestSubmodulesAreThereWithoutANetwork(t *testing.T) {
	d := startDaemon(t, options{config: "[merge]\ncheck = \"grep -q lib lib/lib.txt && grep -q inner lib/deep/inner/inner.txt\"\n"})
	project := d.withSubmodule()
	d.must("up", "--repo", project, d.path("ws"))
	var a api.Agent
	decode(t, d.must("--json", "agents", "add", "alice", "--base", "custom", "--", "true"), &a)
	require.Empty(t, a.Warnings)
	whole := func(name string) {
		d.t.Helper()
		require.Equal(t, "lib\ninner\nlib\ninner\n", d.sh(name, `set -e
cat lib/lib.txt lib/deep/inner/inner.txt
test -z "$(git status --porcelain)" || { git status; exit 3; }
git -C lib log -1 --format=%s; git -C lib/deep/inner log -1 --format=%s
git -C lib fsck --strict; test -z "$(git submodule status --recursive | grep -v '^ ')"; test $(git submodule status --recursive | wc -l) = 2
cd lib/deep && git rev-parse --show-toplevel | grep -q 'lib$'`), name)
	}
	whole("alice")
	before := git(t, d.dir, "-c", "safe.directory=*", "-C", filepath.Join(project, ".git", "modules", "lib"), "count-objects", "-v")
	d.sh("alice", ident+"git -C lib config user.name a; git -C lib config user.email a@b; echo x > lib/x; git -C lib add x; git -C lib commit -qm x; git -C lib gc -q")
	require.NotZero(t, d.exec("alice", "sh", "-c", "echo x > "+d.path("ws", ".polis", "modules", "lib", "objects", "x")).code, "they are read-only")
	require.NotZero(t, d.exec("alice", "test", "-e", d.path("ws", ".polis", "modules", "lib", "config")).code, "an address can have a password")
	require.Equal(t, before, git(t, d.dir, "-c", "safe.directory=*", "-C", filepath.Join(project, ".git", "modules", "lib"), "count-objects", "-v"))
	require.Contains(t, d.refused(api.CodeUnsavedWork, "agents", "remove", "alice").Message, `"lib": 1 commit`)
	// A branch of the project's submodule that goes is not the agent's work.
	require.NoError(t, chownAll(project, 0))
	git(t, filepath.Join(project, "lib"), "branch", "-q", "-r", "-D", "origin/main")
	d.giveAway(project)
	require.Contains(t, d.refused(api.CodeUnsavedWork, "agents", "remove", "alice").Message, `"lib": 1 commit`)
	d.fork("alice", "second")
	require.Equal(t, "x\n", d.sh("second", "git -C lib log -1 --format=%s"))
	d.must("agents", "remove", "alice", "--force")
	d.must("restore", "alice")
	d.must("agents", "start", "--program", "alice")
	require.Equal(t, "x\n", d.sh("alice", "git -C lib log -1 --format=%s; git -C lib checkout -q main 2>/dev/null || git -C lib checkout -q HEAD~1; git -C lib fsck"))

	d.add("bob")
	whole("bob")
	d.sh("bob", "echo b > b.txt; git add b.txt; git commit -qm b")
	d.must("merge", "bob") // the check reads them
	d.must("agents", "remove", "bob")
	d.add("carol", "--deny", "secret/**")
	require.NotZero(t, d.exec("carol", "test", "-e", "lib/lib.txt").code, "its rules can withhold what is in there")
}

// TestARestoredAgentHasItsSubmodules: removal saves the repositories inside a worktree, restore and fork bring them,
// under another name, too.
func TestARestoredAgentHasItsSubmodules(t *testing.T) {
	d := startDaemon(t, options{})
	d.must("up", "--repo", d.withSubmodule(), d.path("ws"))
	d.add("alice")
	d.give("alice", "lib")
	d.give("alice", "inner")
	d.sh("alice", clones+`git -C lib -c protocol.file.allow=always -c submodule.deep/inner.url=$HOME/inner submodule --quiet update --init
echo x > lib/x; git -C lib add x; git -C lib commit -qm work; echo y > lib/y; echo z >> lib/deep/inner/inner.txt
git init -q vendored; echo v > vendored/v; ln -s v vendored/link`)
	const state = `git status --porcelain; git -C lib log -1 --format=%s; git -C lib status --porcelain; cat lib/y; git -C lib/deep/inner status --porcelain; git -C lib/deep/inner log -1 --format=%s
git -C vendored status --porcelain; readlink vendored/link; git -C lib rev-parse --git-dir | grep -q "worktrees/$1/modules/lib\$"; git -C lib config core.worktree`
	at := func(name string) string { return d.sh(name, "set -e; set -- "+name+"\n"+state) }
	want := at("alice")
	require.Contains(t, want, "work")
	named := func(name string) string { return strings.ReplaceAll(want, "worktrees/alice/", "worktrees/"+name+"/") }

	require.Empty(t, d.fork("alice", "forked").LeftOut)
	require.Equal(t, named("forked"), at("forked"))
	d.sh("forked", "echo more > lib/more; git -C lib add more; git -C lib commit -qm more; git -C lib fsck --strict >/dev/null")
	require.Equal(t, want, at("alice"), "each has its own")

	var gone api.RemoveResponse
	decode(t, d.must("--json", "agents", "remove", "alice", "--force"), &gone)
	require.NotEmpty(t, gone.Trash)
	d.must("restore", "alice")
	d.must("agents", "start", "--program", "alice")
	require.Equal(t, want, at("alice"))
	d.must("discard", "alice", "--yes")
	d.must("restore", "alice", "--as", "again")
	d.must("agents", "start", "--program", "again")
	require.Equal(t, named("again"), at("again"))

	// What is saved expires with its ref.
	kept := glob(d.path("ws", ".polis", "trash", "alice.*.nested"))
	require.Len(t, kept, 2)
	for _, k := range kept {
		fi, err := os.Stat(k)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o700), fi.Mode().Perm())
	}
	time.Sleep(1100 * time.Millisecond)
	d.must("gc", "--before", "1s")
	require.Empty(t, glob(d.path("ws", ".polis", "trash", "alice.*.nested")))
}

// TestASubmodulesCommitMustBeWhereTheProjectGetsIt: a pointer to a commit that only the agent has is not merged.
func TestASubmodulesCommitMustBeWhereTheProjectGetsIt(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.withSubmodule()
	d.must("up", "--repo", project, d.path("ws"))
	d.add("alice")
	d.give("alice", "lib")
	d.sh("alice", clones+`git -C lib checkout -qb work; echo x > lib/x; git -C lib add x; git -C lib commit -qm work; git add lib; git commit -qm pointer`)
	before := git(t, project, "rev-parse", "main")
	require.Equal(t, api.CodeProtectedPath, d.refused(api.CodeProtectedPath, "merge", "alice").Code)
	e := d.refused(api.CodeSubmoduleLost, "merge", "alice", "--accept-protected")
	require.Contains(t, e.Message, `"lib" is at `)
	require.Equal(t, before, git(t, project, "rev-parse", "main"))
	d.refused(api.CodeUnsavedWork, "agents", "remove", "alice")

	// As the hint says.
	require.Contains(t, e.Hint, "polisctl agents exec alice -- git -C lib bundle create - HEAD > sub.bundle")
	require.Contains(t, e.Hint, "git -C lib fetch sub.bundle HEAD:agent/alice")
	bundle := d.must("agents", "exec", "alice", "--", "git", "-C", "lib", "bundle", "create", "-", "HEAD")
	d.write("sub.bundle", bundle)
	require.NoError(t, chownAll(project, 0))
	git(t, filepath.Join(project, "lib"), "fetch", "-q", d.path("sub.bundle"), "HEAD:agent/alice")
	d.giveAway(project)
	d.must("merge", "alice", "--accept-protected")
	d.must("agents", "remove", "alice")
	git(t, project, "submodule", "--quiet", "update", "lib")
	require.Equal(t, "x\n", readFile(filepath.Join(project, "lib", "x")))

	// A new submodule.
	d.giveAway(project)
	d.add("bob")
	d.sh("bob", ident+`git init -q -b main $HOME/far; cd $HOME/far; git config user.name a; git config user.email a@b; echo f > f; git add f; git commit -qm far; cd - >/dev/null
git -c protocol.file.allow=always submodule --quiet add $HOME/far far; git commit -qm far`)
	e = d.refused(api.CodeSubmoduleLost, "merge", "bob", "--accept-protected")
	require.Contains(t, e.Hint, "polisctl agents exec bob -- git -C far bundle create - --all > sub.bundle")
	require.Contains(t, e.Hint, "git clone --bare sub.bundle .git/modules/far")
	d.write("sub.bundle", d.must("agents", "exec", "bob", "--", "git", "-C", "far", "bundle", "create", "-", "--all"))
	git(t, project, "clone", "-q", "--bare", d.path("sub.bundle"), ".git/modules/far")
	d.giveAway(project)
	d.must("merge", "bob", "--accept-protected")
	d.must("agents", "remove", "bob")
}
