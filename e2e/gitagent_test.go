package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestGitOfAnAgent runs the git commands of people and programs, one after the other in one agent.
// Each must work as outside polis.
func TestGitOfAnAgent(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			d := startDaemon(t, options{config: "[locks]\nhold = \"close\"\n"})
			repo := d.smallRepo()
			if format != "sha1" {
				require.NoError(t, os.RemoveAll(filepath.Join(repo, ".git")))
				git(t, repo, "init", "-q", "-b", "main", "--object-format="+format)
				git(t, repo, "add", "-A")
				git(t, repo, "commit", "-q", "-m", "Start")
				d.giveAway(repo)
			}
			d.must("up", "--repo", repo, d.path("ws"))
			d.add("alice", "--memory", "1024")
			d.sh("alice", ident+"echo 1 >> main.txt; git commit -qam one; echo 2 >> main.txt; git commit -qam two; echo 3 >> main.txt; git commit -qam three")
			for _, c := range []struct{ name, script string }{
				{"commit", "echo c > c.txt; git add c.txt; git commit -qm c; git show --stat HEAD | grep -q c.txt"},
				{"amend", "git commit -q --amend -m 'c again'; git log -1 --format=%s | grep -q again"},
				{"commit of ten files", "mkdir ten; for i in 0 1 2 3 4 5 6 7 8 9; do echo $i > ten/$i; done; git add ten; git commit -qm ten"},
				{"branch and switch", "git switch -qc feature; echo f > f.txt; git add f.txt; git commit -qm f; git switch -q agent/alice"},
				{"merge", "git merge -q --no-ff -m merged feature; test -f f.txt"},
				{"branch rename and delete", "git branch -m feature feature2; git branch -d feature2"},
				{"checkout -b", "git checkout -q -b other HEAD~1; git checkout -q agent/alice; git branch -D other"},
				{"rebase", "git checkout -q -b side HEAD~2; echo s > s.txt; git add s.txt; git commit -qm s; git rebase -q agent/alice; git checkout -q agent/alice; git merge -q --ff-only side"},
				{"rebase -i", "echo 4 >> main.txt; git commit -qam four; GIT_SEQUENCE_EDITOR=\"sed -i '1s/^pick/reword/'\" GIT_EDITOR='sed -i s/four/vier/' git rebase -q -i HEAD~1; git log -1 --format=%s | grep -q vier"},
				{"rebase that stops", "git checkout -q -b stop HEAD~1; echo no >> main.txt; git commit -qam no; ! git rebase -q agent/alice 2>/dev/null; git rebase --abort; git checkout -q agent/alice"},
				{"cherry-pick", "git cherry-pick -x side >/dev/null 2>&1 || git cherry-pick --skip; git cherry-pick stop >/dev/null 2>&1 || git cherry-pick --abort"},
				{"revert", "git revert --no-edit HEAD >/dev/null; git log -1 --format=%s | grep -q Revert"},
				{"stash", "echo w >> main.txt; echo n > new; git stash -q -u; test ! -f new; git stash list | grep -q WIP; git stash pop -q; test -f new; rm new; git checkout -q main.txt"},
				{"tag", "git tag t1; git tag -am message t2; git describe | grep -q t2; git tag -d t1 >/dev/null"},
				{"reset", "echo r >> main.txt; git commit -qam r; git reset -q --soft HEAD~1; git reset -q; git reset -q --hard"},
				{"restore and clean", "echo x >> main.txt; git restore main.txt; touch junk; git clean -fdq; test ! -f junk; git diff --exit-code"},
				{"bisect", "git bisect start HEAD HEAD~3 >/dev/null; git bisect run true >/dev/null; git bisect reset >/dev/null 2>&1"},
				{"blame, grep, log", "git blame main.txt >/dev/null; git grep -q one; git log --graph --oneline --all >/dev/null; git shortlog -s HEAD >/dev/null; git log --remerge-diff -3 >/dev/null"},
				{"notes", "git notes add -m hello; git notes show | grep -q hello; git notes remove"},
				{"reflog", "git reflog | grep -q commit; git rev-parse HEAD@{1} >/dev/null"},
				{"worktree list", "git worktree list | grep -q agent/alice"},
				{"sparse-checkout", "git sparse-checkout set src; test ! -d docs; git sparse-checkout disable; test -d docs"},
				{"gc --auto", "git gc --auto; git maintenance run --auto"},
				{"pack-refs --all", "git pack-refs --all; git rev-parse t2 side >/dev/null"},
				{"fsck", "git fsck --strict"},
				{"pack of a large file", "git config core.bigFileThreshold 10k; head -c 50000 /dev/urandom > large; git add large; git commit -qm large; git show HEAD:large | cmp - large"},
				{"fetch of many objects", "git init -q --object-format=" + format + " -b trunk $HOME/far; cd $HOME/far; git config user.name a; git config user.email a@b; for i in $(seq 50); do echo $i > f$i; git add .; git commit -qm $i; done; cd - >/dev/null; " +
					"git fetch -q $HOME/far trunk:refs/heads/far; test $(git rev-list --count far) = 50"},
				{"submodule", "git -c protocol.file.allow=always submodule add -q $HOME/far sub; git commit -qm sub; git -c protocol.file.allow=always submodule update -q --init; test -f sub/f50; cd sub; git status --porcelain; git log -1 >/dev/null"},
				{"submodule again", "git submodule -q deinit -f sub; git -c protocol.file.allow=always submodule update -q --init; test -f sub/f1"},
				{"LFS pointer", "printf '*.bin filter=lfs diff=lfs merge=lfs -text\\n' >> .gitattributes; printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:%064d\\nsize 12\\n' 1 > a.bin; git add .gitattributes a.bin; git commit -qm lfs; git show HEAD:a.bin | grep -q sha256"},
				{"archive and bundle", "git archive HEAD | tar -t >/dev/null; git bundle create -q $HOME/b.bundle agent/alice; git bundle verify -q $HOME/b.bundle"},
				{"gc", "git gc -q 2>$HOME/gc.err || grep -qi 'denied\\|failed\\|error' $HOME/gc.err; git status --porcelain; git fsck"},
			} {
				r := d.exec("alice", "sh", "-ec", c.script)
				require.Zero(t, r.code, "%s: %s\n%s\n%s", c.name, c.script, r, d.sh("alice", "cat /run/polis/why"))
			}
			bare := d.path("ws", ".polis", "bare-repo.git")
			git(t, bare, "fsck", "--full", "--strict", "--no-dangling")
			require.Equal(t, "Start\n", git(t, bare, "log", "-1", "--format=%s", "main"))
			for k := range d.locks() {
				require.False(t, strings.HasPrefix(k, "ref:") || strings.HasPrefix(k, "repo:"), "%s is still locked", k)
			}
			// The project gets a submodule's commits before they are merged.
			project := d.path("src")
			require.NoError(t, chownAll(d.home("alice", "far"), 0))
			git(t, project, "clone", "-q", "--bare", d.home("alice", "far"), ".git/modules/sub")
			d.giveAway(project)
			d.must("merge", "alice", "--accept-protected") // .gitattributes and a submodule
			git(t, bare, "fsck", "--full", "--strict", "--no-dangling")
		})
	}
}

// TestHostileGitOfAnAgent tries to reach other agents through the git directory. Each attempt must
// fail and be recorded, and nothing of the other agents may change.
func TestHostileGitOfAnAgent(t *testing.T) {
	d := startDaemon(t, options{config: "[limits]\ngit_objects_mb = 8\n"})
	d.up()
	d.add("alice")
	d.add("mallory")
	d.sh("alice", ident+"echo a >> main.txt; git commit -qam a; git branch alices; git tag alices-tag")
	bare := d.path("ws", ".polis", "bare-repo.git")
	state := func() string {
		out := git(t, bare, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/main", "refs/heads/agent/alice", "refs/heads/alices", "refs/tags")
		for _, name := range []string{"config", "HEAD", "worktrees/alice/HEAD", "worktrees/alice/commondir"} {
			out += readFile(filepath.Join(bare, name))
		}
		return out + strings.Join(glob(filepath.Join(bare, "hooks", "*")), " ") + strings.Join(glob(filepath.Join(bare, "objects", "info", "*")), " ")
	}
	before := state()
	const g = "cd $(git rev-parse --git-common-dir); h=$(git rev-parse HEAD); "
	// The shared objects are read-only mounts, whose refusals come from the kernel. The view
	// refuses the rest, and records it.
	tries := []struct{ name, script, denied string }{
		{"another's branch", "git update-ref refs/heads/alices HEAD", "refs/heads/alices"},
		{"another's branch, by force", "git branch -f agent/alice HEAD", "refs/heads/agent/alice"},
		{"another's branch away", "git branch -D alices", "alices"},
		{"another's tag", "git tag -f alices-tag HEAD", "alices-tag"},
		{"the target", "git update-ref refs/heads/main HEAD", "refs/heads/main"},
		{"the target by a file", g + "echo $h > refs/heads/main", "refs/heads/main"},
		{"another's worktree", g + "ls worktrees/alice", ""},
		{"the common directory", g + "echo /tmp > worktrees/mallory/commondir", "commondir"},
		{"an object changed", g + "o=$(cat objects/info/alternates)/$(git rev-parse alices | sed 's,..,&/,'); test -f $o || exit 0; chmod u+w $o; echo x > $o", ""},
		{"an object away", g + "o=$(cat objects/info/alternates)/$(git rev-parse alices | sed 's,..,&/,'); test -f $o || exit 0; rm -f $o", ""},
		{"a pack away", g + "p=$(ls $(cat objects/info/alternates)/pack/*.pack | head -1); test -f $p || exit 0; rm -f $p", ""},
		{"an object under a wrong name", g + "mkdir -p objects/aa; echo x > objects/aa/tmp_obj_x; mv objects/aa/tmp_obj_x objects/aa/$(printf %038d 1)", "objects/aa"},
		{"a corrupt pack", g + "echo PACKgarbagegarbagegarbagegarbagegarbage > objects/pack/tmp_pack_x; mv objects/pack/tmp_pack_x objects/pack/pack-$(printf %040d 1).pack", "objects/pack"},
		{"a corrupt index", g + "cd $(cat objects/info/alternates); p=$(ls pack/*.pack | head -1); echo x > pack/tmp_idx_x; mv pack/tmp_idx_x ${p%.pack}.idx", ""},
		{"alternates", g + "echo /tmp > objects/info/alternates", ""},
		{"alternates from the network", g + "echo http://x > objects/info/http-alternates", ""},
		{"a link for a ref", g + "ln -s main refs/heads/link", "refs/heads/link"},
		{"a symbolic ref", "git symbolic-ref refs/heads/sym refs/heads/main", "refs/heads/sym"},
		{"a ref that leaves", g + "echo $h > refs/heads/a..b.lock && mv refs/heads/a..b.lock refs/heads/a..b", "a..b"},
		{"a ref that is a lock", g + "echo $h > refs/heads/y.lock.lock && mv refs/heads/y.lock.lock refs/heads/y.lock", "y.lock"},
		{"a ref with the name of a file above", g + "mkdir -p refs/heads/alices.d && echo $h > refs/heads/alices/x", ""},
		{"packed-refs", g + "echo $h refs/heads/main > packed-refs", "packed-refs"},
		{"packed-refs with others' refs changed", g + ": > packed-refs.lock; { cat packed-refs 2>/dev/null; echo $h refs/heads/zz; } > packed-refs.new; mv packed-refs.new packed-refs; e=$?; rm -f packed-refs.lock packed-refs.new; exit $e", "packed-refs"},
		{"more objects than it may have", "head -c 9000000 /dev/urandom > big; git add big", "QUOTA"},
	}
	for _, c := range tries {
		r := d.exec("mallory", "sh", "-c", c.script)
		require.NotZero(t, r.code, "%s: %s", c.name, r)
		require.Equal(t, before, state(), c.name)
	}
	// What is the agent's own changes nothing of others.
	for name, script := range map[string]string{
		"a worktree of its own making": g + "mkdir worktrees/fake",
		"an object of its own away":    "echo mine | git hash-object -w --stdin; " + g + "rm -f $(find objects -type f -path '*/??/*' | head -1)",
		"a replacement":                "git replace $(git rev-parse HEAD:README.md) $(git rev-parse HEAD:main.txt)",
	} {
		r := d.exec("mallory", "sh", "-c", script)
		require.Zero(t, r.code, "%s: %s", name, r)
		require.Equal(t, before, state(), name)
	}
	require.Equal(t, readFile(d.path("src/README.md")), d.sh("alice", "git cat-file blob HEAD:README.md"))
	git(t, bare, "fsck", "--full", "--strict", "--no-dangling")
	d.sh("alice", "git fsck; git status; echo b >> main.txt; git commit -qam b")
	said := ""
	for _, e := range d.events("mallory") {
		if e.Type == api.EventDenied {
			said += e.Message + "\n"
		}
	}
	for _, c := range tries {
		require.Contains(t, said, c.denied, c.name)
	}
}

// TestMergeRunsNothingOfAHostileAgent merges a branch with every setting that could run a program,
// at every place where git reads it.
func TestMergeRunsNothingOfAHostileAgent(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	d.add("mallory")
	mark := d.path("ran")
	require.NoError(t, os.Mkdir(mark, 0o777))
	require.NoError(t, os.Chmod(mark, 0o777))
	cmd := "touch " + mark + "/$$"
	d.sh("mallory", ident+`
printf '* filter=x diff=x merge=x\n*.bin filter=lfs\n' > .gitattributes
printf '[submodule "sub"]\n\tpath = sub\n\turl = ./.\n\tupdate = !`+cmd+`\n' > .gitmodules
echo evil >> main.txt; echo x > a.bin; git add -A
git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub
git commit -qm evil
for k in filter.x.clean filter.x.smudge filter.x.process diff.x.textconv diff.x.command merge.x.driver core.fsmonitor core.sshCommand core.editor core.pager gpg.program credential.helper filter.lfs.smudge filter.lfs.process submodule.sub.update; do git config $k '`+cmd+`'; done
h=$(git rev-parse --git-path hooks)
for n in pre-commit post-commit post-merge post-checkout reference-transaction update pre-receive post-update pre-merge-commit; do printf '#!/bin/sh\n`+cmd+`\n' > $h/$n; chmod +x $h/$n; done`)
	before := len(glob(mark + "/*")) // in the sandbox there is no such directory
	require.Zero(t, before)
	e := d.refused(api.CodeProtectedPath, "merge", "mallory")
	require.Subset(t, e.Details["paths"], []any{".gitattributes", ".gitmodules", "sub"})
	d.refused(api.CodeSubmoduleLost, "merge", "mallory", "--accept-protected")
	// Its commit is in the project now: the directory of the submodule is filled in other agents, as mallory has named it.
	d.write("sub.bundle", d.must("agents", "exec", "mallory", "--", "git", "bundle", "create", "-", "agent/mallory"))
	git(t, d.dir, "clone", "-q", "--bare", "-b", "agent/mallory", d.path("sub.bundle"), filepath.Join(project, ".git", "modules", "sub"))
	d.giveAway(project)
	d.must("merge", "mallory", "--accept-protected")
	d.add("victim")
	require.Contains(t, d.sh("victim", "cat sub/main.txt"), "three")
	require.Contains(t, git(t, project, "show", "main:main.txt"), "evil")
	d.must("status")
	d.must("discard", "mallory", "--yes")
	require.Empty(t, glob(mark+"/*"))
}
