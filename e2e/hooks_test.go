package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A hook is one way to make git run a program.
type hook struct {
	name string
	// config are lines for git-config(1), with SCRIPT for the program.
	config string
	// attributes are lines of .gitattributes.
	attributes string
	// file is a hook of githooks(5) that is put into the hooks directory.
	file string
	// try is a shell command in a repository that makes git run the program. It is empty for hooks
	// that need a terminal or another machine. Those are only planted.
	try string
}

// hooks are all known hooks. The commands that try them run in a repository where main.txt is
// changed and a branch "other" conflicts in it.
var hooks = []hook{
	{name: "filter clean", config: "filter.x.clean=SCRIPT", attributes: "* filter=x", try: "git add main.txt"},
	{name: "filter smudge", config: "filter.x.smudge=SCRIPT", attributes: "* filter=x", try: "rm main.txt; git checkout main.txt"},
	{name: "filter process", config: "filter.y.process=SCRIPT", attributes: "*.txt filter=y", try: "git add main.txt"},
	{name: "LFS", config: "filter.lfs.clean=SCRIPT\nfilter.lfs.smudge=SCRIPT\nfilter.lfs.process=SCRIPT\nfilter.lfs.required=true", attributes: "*.txt filter=lfs", try: "git add main.txt"},
	{name: "textconv", config: "diff.x.textconv=SCRIPT", attributes: "* diff=x", try: "git diff"},
	{name: "diff command", config: "diff.x.command=SCRIPT", attributes: "* diff=x", try: "git diff"},
	{name: "diff external", config: "diff.external=SCRIPT", try: "git diff"},
	{name: "merge driver", config: "merge.x.driver=SCRIPT", attributes: "* merge=x", try: "git checkout -q -f; git merge other"},
	{name: "fsmonitor", config: "core.fsmonitor=SCRIPT", try: "git status"},
	{name: "ssh", config: "core.sshCommand=SCRIPT", try: "git ls-remote ssh://nowhere.invalid/x"},
	{name: "git proxy", config: "core.gitProxy=SCRIPT", try: "git ls-remote git://nowhere.invalid/x"},
	{name: "credential helper", config: "credential.helper=SCRIPT", try: "printf 'protocol=https\\nhost=h\\n' | git credential fill"},
	{name: "editor", config: "core.editor=SCRIPT", try: "git commit --allow-empty"},
	{name: "sequence editor", config: "sequence.editor=SCRIPT", try: "git checkout -q -f; git rebase -i HEAD~1"},
	{name: "alias", config: "alias.zz=!SCRIPT", try: "git zz"},
	{name: "signature", config: "gpg.program=SCRIPT\ncommit.gpgSign=true", try: "git commit --allow-empty -m x"},
	{name: "ssh signature", config: "gpg.format=ssh\ngpg.ssh.program=SCRIPT\nuser.signingKey=/etc/hostname\ncommit.gpgSign=true", try: "git commit --allow-empty -m x"},
	{name: "upload-pack", config: "remote.r.url=/nowhere\nremote.r.uploadpack=SCRIPT", try: "git ls-remote r"},
	{name: "receive-pack", config: "remote.r.url=/nowhere\nremote.r.receivepack=SCRIPT", try: "git push r HEAD:refs/heads/x"},
	{name: "ext", config: "protocol.ext.allow=always\nremote.e.url=ext::SCRIPT", try: "git ls-remote e"},
	{name: "lazy fetch", config: "core.repositoryFormatVersion=1\nextensions.partialClone=e\nremote.e.promisor=true\nprotocol.ext.allow=always\nremote.e.url=ext::SCRIPT", try: "git cat-file -p 1111111111111111111111111111111111111111"},
	{name: "archive", config: "tar.x.command=SCRIPT", try: "git archive --format=x HEAD"},
	{name: "submodule update", config: "submodule.sub.update=!SCRIPT\nsubmodule.sub.url=./.git", try: "git -c protocol.file.allow=always submodule add ./.git sub && git commit -qm sub && git -C sub -c user.name=a -c user.email=a@b commit -q --allow-empty -m y && git submodule update"},
	{name: "pack objects hook", config: "uploadpack.packObjectsHook=SCRIPT"}, // protected configuration only (git-config(1))
	{name: "pager", config: "core.pager=SCRIPT\npager.log=SCRIPT\npager.diff=SCRIPT"},
	{name: "askpass", config: "core.askPass=SCRIPT"},
	{name: "interactive filter", config: "interactive.diffFilter=SCRIPT"},
	{name: "alternates", config: "core.alternateRefsCommand=SCRIPT"},
	{name: "trailer", config: "trailer.x.command=SCRIPT\ntrailer.x.cmd=SCRIPT\ntrailer.x.ifmissing=add"},
	{name: "another worktree", config: "core.worktree=/etc"},
	{name: "hook post-checkout", file: "post-checkout", try: "git checkout -q -f -b zz"},
	{name: "hook reference-transaction", file: "reference-transaction", try: "git branch zy"},
	{name: "hook pre-commit", file: "pre-commit", try: "git commit -q --allow-empty -m x"},
	{name: "hook post-index-change", file: "post-index-change", try: "git add main.txt"},
	{name: "hook pre-receive", file: "pre-receive", try: "git push -q . HEAD:refs/heads/zx"},
	{name: "hook post-merge", file: "post-merge", try: "git checkout -q -f other~1; git merge -q other"},
	{name: "hooks path", config: "core.hooksPath=HOOKS", file: "post-commit", try: "git commit -q --allow-empty -m x"},
	{name: "other hooks", file: "pre-push post-rewrite pre-rebase update post-update post-receive proc-receive pre-auto-gc push-to-checkout prepare-commit-msg commit-msg pre-merge-commit applypatch-msg fsmonitor-watchman sendemail-validate"},
}

// configFile writes lines of KEY=VALUE as a file of git's.
func configFile(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !ok {
			continue
		}
		section, name, _ := strings.Cut(key, ".")
		if i := strings.LastIndexByte(name, '.'); i >= 0 {
			section, name = fmt.Sprintf("%s %q", section, name[:i]), name[i+1:]
		}
		fmt.Fprintf(&b, "[%s]\n\t%s = %s\n", section, name, value)
	}
	return b.String()
}

// TestEveryPlantedHookIsOne is the positive control of the next test: in an ordinary repository,
// each of the hooks runs.
func TestEveryPlantedHookIsOne(t *testing.T) {
	needRoot(t)
	d := &daemon{t: t, dir: t.TempDir()}
	require.NoError(t, os.Chmod(d.dir, 0o777))
	require.NoError(t, os.Chmod(filepath.Dir(d.dir), 0o755))
	m := d.marker("marker")
	base := d.path("base")
	require.NoError(t, os.Mkdir(base, 0o755))
	d.giveAway(base)
	d.shAsOwner(base, `git init -q -b main && git config user.name a && git config user.email a@b && echo 1 > main.txt && git add . && git commit -qm 1 &&
git checkout -q -b other && git commit -q --allow-empty -m between && echo 2 > main.txt && git commit -qam 2 && git checkout -q main && echo 3 > main.txt && git commit -qam 3 && echo 4 > main.txt`)
	for i, h := range hooks {
		if h.try == "" {
			continue
		}
		repo := d.path(fmt.Sprint("repo", i))
		d.shAsOwner(d.dir, "cp -a "+base+" "+repo)
		config, err := os.OpenFile(filepath.Join(repo, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		dir := filepath.Join(repo, ".git", "hooks")
		if strings.Contains(h.config, "HOOKS") {
			dir = filepath.Join(repo, ".git", "myhooks")
		}
		_, err = config.WriteString(configFile(strings.NewReplacer("SCRIPT", m.script, "HOOKS", dir).Replace(h.config)))
		require.NoError(t, err)
		require.NoError(t, config.Close())
		require.NoError(t, os.WriteFile(filepath.Join(repo, ".git", "info", "attributes"), []byte(h.attributes+"\n"), 0o644))
		if h.file != "" {
			require.NoError(t, os.MkdirAll(dir, 0o755))
			require.NoError(t, os.Symlink(m.script, filepath.Join(dir, h.file)))
		}
		require.NoFileExists(t, m.file)
		out := d.shAsOwner(repo, h.try)
		require.FileExists(t, m.file, "%s: this hook is planted wrongly: %s", h.name, out)
		require.NoError(t, os.Remove(m.file))
	}
}

// TestNoHookOfAnAgentRunsOnTheHost: an agent plants every hook at every place that it can write,
// and every verb runs on the result.
func TestNoHookOfAnAgentRunsOnTheHost(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	m := d.marker("marker")
	d.add("alice")
	d.worker("mallory")
	d.sh("alice", ident+"echo alice >> main.txt && git commit -qam alice")

	var config, attributes, files []string
	for _, h := range hooks {
		config = append(config, strings.ReplaceAll(h.config, "HOOKS", filepath.Dir(m.script)))
		attributes = append(attributes, h.attributes)
		files = append(files, h.file)
	}
	for _, name := range strings.Fields(strings.Join(files, " ")) {
		require.NoError(t, os.Symlink(m.script, filepath.Join(filepath.Dir(m.script), name)))
	}
	evil := configFile(strings.ReplaceAll(strings.Join(config, "\n"), "SCRIPT", m.script))
	everything := strings.Join(attributes, "\n")
	d.must("agents", "exec", "mallory", "--", "sh", "-c", ident+`set -e
config=$1 attributes=$2 hooks=$3 script=$4
plant() { # GITDIR
	printf '%s' "$config" >> $1/config
	printf '%s' "$config" >> $1/config.worktree
	mkdir -p $1/info $1/hooks
	printf '%s\n' "$attributes" > $1/info/attributes
	for h in $hooks; do printf '#!/bin/sh\nexec %s\n' "$script" > $1/hooks/$h; chmod +x $1/hooks/$h; done
}
echo mallory >> README.md; echo x > new.txt
# A repository inside, whole and bare, which the index and .gitmodules name.
for n in src/nested src/update; do
	mkdir -p $n; git init -q -b main $n; echo one > $n/file; git -C $n add file
	git -C $n -c user.name=a -c user.email=a@b commit -qm nested
done
git init -q --bare src/bare
head=$(git -C src/nested rev-parse HEAD)
git add README.md
git update-index --add --cacheinfo 160000,$head,src/nested --cacheinfo 160000,$head,src/update
printf '[submodule "n"]\n\tpath = src/nested\n\turl = ./.\n\tignore = none\n[submodule "sub"]\n\tpath = src/update\n\turl = ./.\n\tupdate = !%s\n\tignore = none\n' "$script" > .gitmodules
printf '%s\n' "$attributes" > .gitattributes
git add .gitmodules .gitattributes
git commit -qm evil
printf '%s\n' "$attributes" > src/nested/.gitattributes
echo two > src/nested/file
echo more >> README.md
for n in src/nested/.git src/update/.git src/bare; do plant $n; done
own=$(git rev-parse --absolute-git-dir) common=$(git rev-parse --path-format=absolute --git-common-dir)
plant $own
plant $common || :
git config extensions.worktreeConfig true || :
`, "plant", evil, everything, strings.Join(strings.Fields(strings.Join(files, " ")), " "), m.script)
	require.NoFileExists(t, m.file)

	control := d.path("control")
	require.NoError(t, os.CopyFS(control, os.DirFS(d.path("ws", ".polis", "worktrees", "mallory", "src", "nested"))))
	d.giveAway(control)

	ran := func(args ...string) result {
		t.Helper()
		r := d.ctl(args...)
		require.NoFileExists(t, m.file, "polisctl %v ran %s", args, readFile(m.file))
		return r
	}
	must := func(args ...string) {
		t.Helper()
		r := ran(args...)
		require.Zero(t, r.code, "polisctl %v: %s", args, r)
	}
	must("status")
	must("agents", "list")
	must("top")
	for _, flags := range [][]string{nil, {"--stat"}, {"--name-only"}, {"--committed"}} {
		must(append([]string{"agents", "diff", "mallory"}, flags...)...)
	}
	must("conflicts")
	ran("merge", "mallory", "--dry-run")
	ran("agents", "pr", "mallory", "--dry-run")
	ran("agents", "rebase", "mallory")
	must("maintenance", "--now")
	must("gc", "--dry-run")
	ran("merge", "mallory", "--accept-protected")
	// The project gets the commits of the submodules, so that it is merged.
	d.write("sub.bundle", d.must("agents", "exec", "mallory", "--", "git", "-C", "src/nested", "bundle", "create", "-", "main"))
	for _, name := range []string{"n", "sub"} {
		git(t, d.dir, "clone", "-q", "--bare", "-b", "main", d.path("sub.bundle"), d.path("src", ".git", "modules", name))
	}
	d.giveAway(d.path("src"))
	must("merge", "mallory", "--accept-protected")
	must("revert", "mallory")
	ran("queue", "add", "mallory")
	must("agents", "stop", "mallory")
	must("agents", "diff", "mallory")
	must("agents", "list")
	must("agents", "start", "mallory")
	must("discard", "mallory", "--yes")
	must("restore", "mallory")
	must("agents", "diff", "mallory")
	must("agents", "remove", "mallory", "--force")
	must("restore", "mallory")
	d.stop()
	d.start()
	must("status")
	must("merge", "alice")
	must("maintenance", "--now")
	must("down", "--force", d.path("ws"))
	_, there := d.agent("mallory")
	require.False(t, there)

	m.works(func() {
		for _, args := range [][]string{{"status"}, {"diff"}, {"add", "file"}} {
			d.asOwner(control, args...)
		}
	})
}
