package projectcheck

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/agent/outlinks"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/git/githooks"
	"polis/internal/need"
)

// paste runs a command as a person does who copies it from the page, with answers for what it asks. sudo is what it needs to be here.
func paste(t *testing.T, command, home, answers string) {
	t.Helper()
	for _, r := range command {
		require.True(t, r >= ' ' && r != 0x7f && r != 0x202e, "a terminal shows all of it: %q", command)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", `sudo() { "$@"; }; `+command)
	cmd.Dir, cmd.Stdin = "/", strings.NewReader(answers)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LC_ALL=C", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always", "EMAIL=x@y"}
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &errs, &errs
	require.NoError(t, cmd.Run(), "%s\n%s", command, errs.String())
}

// hostile is a name that a shell and a terminal must not read.
const hostile = "a'b\"$(touch${IFS}/tmp/polis-pasted)`id`;\u202e\xffé"

// TestTheCommandOfARowMakesItFine runs the command of each row on a world that has the fault, with names that are hostile where git allows it.
func TestTheCommandOfARowMakesItFine(t *testing.T) {
	if !ownEtc(t) {
		return
	}
	base := t.TempDir()
	require.NoError(t, os.Chmod(base, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(base), 0o755))
	bad := api.PastedWord("refs/heads/agent/" + hostile)
	for name, c := range map[string]struct {
		row, answers string
		w            world
		// do is a script in the project before it is under polis, and later is one after that.
		do, later string
		// then is a script in the project that must succeed after the command.
		then string
	}{
		"no identity":              {row: Identity, answers: "Ann O'Hara\nann@x.example\n", then: `test "$(git var GIT_AUTHOR_IDENT | sed 's/ [0-9].*//')" = "Ann O'Hara <ann@x.example>"`},
		"no address":               {row: Identity, answers: "ann@x.example\n", w: world{config: map[string]string{"global": entryText("user.name", "Ann")}}, then: `git var GIT_AUTHOR_IDENT | grep -q '^Ann <ann@x.example>'`},
		"autocrlf, local":          {row: LineEndings, w: world{config: map[string]string{"local": entryText("core.autocrlf", "input")}}},
		"autocrlf, worktree":       {row: LineEndings, w: world{linked: true, config: map[string]string{"local": entryText("extensions.worktreeConfig", "true"), "worktree": entryText("core.autocrlf", "input")}}},
		"status of the owner":      {row: Status, w: world{config: map[string]string{"global": entryText("status.showUntrackedFiles", "no") + entryText("submodule.l'i $b.ignore", "all")}}},
		"an empty submodule":       {row: Submodules, w: world{module: "empty"}, then: "test -e lib/l.txt"},
		"a branch named as agents": {row: Refs, later: "git update-ref " + bad + " HEAD; git update-ref refs/heads/agent/-x HEAD; git branch own--x", then: "git rev-parse own--x-2"},
		"remotes":                  {row: Remotes, do: `git config remote.-x.url /r; git config 'remote.x y.url' /s; git config "remote.it's.url" /t; git remote add x /u`, then: `test "$(git remote | xargs)" = "it-s remote-2 x x-y"`},
		"a shallow clone":          {row: Layout, later: `git init -q --bare ../far; git push -q ../far main; git remote add origin "file://$PWD/../far"; git rev-parse HEAD > .git/shallow; git commit -q --allow-empty -m b`},
	} {
		t.Run(name, func(t *testing.T) {
			c.w.before = c.do
			row, owner := rowOf(t, base, c.w, c.row, c.later)
			before := row()
			require.Equal(t, api.WorksPartly, before.Works, "%+v", before)
			require.NotEmpty(t, before.Command, "%+v", before)
			paste(t, before.Command, owner.home, c.answers)
			after := row()
			require.Equal(t, api.WorksOK, after.Works, "%s\n%+v", before.Command, after)
			paste(t, "set -e; cd "+api.PastedWord(owner.dir)+"; "+c.then, owner.home, "")
			require.NoFileExists(t, "/tmp/polis-pasted")
		})
	}
}

// rowOf makes a world, and returns what reads the row of a name there. later is a script in the project when it is under polis.
func rowOf(t *testing.T, base string, w world, name, later string) (func() api.Finding, caller) {
	t.Helper()
	w.ours = merged(map[string]string{"a.txt": "one\n", "file.up": "shout\n", "dir/b.c": "int x;\n"}, w.ours)
	dir, err := os.MkdirTemp(base, "it's a $case")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	ws, _, owner := openWorld(t, t, w, dir)
	paste(t, "cd "+api.PastedWord(owner.dir)+"; "+later, owner.home, "")
	return func() api.Finding {
		p, err := ws.Project(t.Context())
		require.NoError(t, err)
		brought, err := ws.BringRefs(t.Context(), p, func(string) string { return "" })
		require.NoError(t, err)
		all := Project{Git: p, Home: owner.home, Target: "main", Kept: brought.Kept}
		all.Submodules, all.SubmodulesErr = ws.SubmoduleNotice(t.Context(), "", false)
		all.Settings, err = githooks.ReadSettings(t.Context(), p, owner.home)
		require.NoError(t, err)
		for _, r := range all.Findings(t.Context()) {
			requireRemedy(t, r)
			if r.Name == name {
				return r
			}
		}
		return api.Finding{}
	}, owner
}

// TestNoCommandDestroysOrTrusts: a row has no command, but the reason, where one would overwrite or delete what is not committed, follow links of
// the project's owner as root, or have all users run the owner's programs. What it says to do by hand makes the row fine.
func TestNoCommandDestroysOrTrusts(t *testing.T) {
	if !ownEtc(t) {
		return
	}
	base := t.TempDir()
	require.NoError(t, os.Chmod(base, 0o755))
	require.NoError(t, os.Chmod(filepath.Dir(base), 0o755))
	const commit = "; git add .gitattributes; git commit -qm attributes; test -z \"$(git status --porcelain)\"; git check-attr diff a.txt | grep unset"
	for name, c := range map[string]struct {
		row, why string
		w        world
		// hand is a script in the project, of what the row says to do.
		hand string
	}{
		"attributes of the owner": {row: Attributes, why: "only you know", w: world{files: map[string]string{".config/git/attributes": "*.txt -diff"}},
			hand: `cat ~/.config/git/attributes > .gitattributes` + commit},
		"attributes at a name": {row: Attributes, why: "only you know", w: world{files: map[string]string{"x'y $z": "*.txt -diff\n"}, config: map[string]string{"global": entryText("core.attributesFile", "~/x'y $z")}},
			hand: `cat ~/"x'y \$z" > .gitattributes` + commit},
		"attributes of the clone": {row: Attributes, why: "only you know", w: world{local: map[string]string{"info/attributes": "*.txt -diff\n"}, ours: map[string]string{".gitattributes": "*.txt diff\n"}},
			hand: `cat .git/info/attributes >> .gitattributes; rm .git/info/attributes` + commit},
		"autocrlf that adds CR": {row: LineEndings, why: "overwrites what is changed", w: world{config: map[string]string{"global": entryText("core.autocrlf", "true") + entryText("core.eol", "crlf")}},
			hand: `git config core.autocrlf false; git config core.eol native; git ls-files -z | xargs -0 rm; git checkout -q -- .; test -z "$(git status --porcelain)"; ! grep -q $'\r' a.txt`},
		"a filter": {row: Filters, why: "as every user of this machine",
			w: world{config: map[string]string{"xdg": entryText("filter.u'p $x.clean", "touch /tmp/polis-pasted") + entryText("filter.u'p $x.smudge", "cat")}, ours: map[string]string{".gitattributes": "*.up filter=\"u'p $x\"\n*.txt filter=up\n"}}},
		"sparse": {row: Sparse, why: "deletes the ignored files", w: world{ours: map[string]string{"d ir'x/f": "f\n", "other/f": "f\n"}, before: `git sparse-checkout set --no-cone "/d ir'x/" /dir/`},
			hand: `git sparse-checkout set --cone "d ir'x" dir; test -e dir/b.c -a -e "d ir'x/f" -a ! -e other`},
		"sparse by other patterns": {row: Sparse, why: "only you know", w: world{before: "git sparse-checkout set --no-cone '*.txt'"}},
		"the file system's modes":  {row: Status, why: "core.filemode is what git has found out", w: world{config: map[string]string{"local": entryText("core.fileMode", "false"), "global": entryText("status.showUntrackedFiles", "no")}}},
		"the file system's case":   {row: Status, why: "core.ignorecase is what git has found out", w: world{config: map[string]string{"local": entryText("core.ignoreCase", "true")}}},
		"the file system's links":  {row: Status, why: "core.symlinks is what git has found out", w: world{config: map[string]string{"local": entryText("core.symlinks", "false")}}},
	} {
		t.Run(name, func(t *testing.T) {
			row, owner := rowOf(t, base, c.w, c.row, "")
			before := row()
			require.Equal(t, api.WorksPartly, before.Works, "%+v", before)
			require.Empty(t, before.Command, "%+v", before)
			require.Contains(t, before.NoCommand, c.why)
			if c.hand != "" {
				paste(t, "set -e; cd "+api.PastedWord(owner.dir)+"; "+c.hand, owner.home, "")
				require.Equal(t, api.WorksOK, row().Works, "%+v", row())
			}
			require.NoFileExists(t, "/tmp/polis-pasted")
		})
	}
}

// TestATagIsRenamedAndNeverWhatItNames: git follows a symbolic ref when it deletes one.
func TestATagIsRenamedAndNeverWhatItNames(t *testing.T) {
	if !ownEtc(t) {
		return
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	_, p, owner := openWorld(t, t, world{ours: map[string]string{"a.txt": "one\n"}}, dir)
	paste(t, "cd "+owner.dir+"; git tag -am x v1; git tag own-v1; git tag v2; git symbolic-ref refs/tags/link refs/heads/main; git symbolic-ref refs/tags/nowhere refs/heads/none", owner.home, "")
	kept := map[string]string{"refs/tags/v1": "x", "refs/tags/v2": "x", "refs/tags/link": "x", "refs/tags/nowhere": "x"}
	r := Project{Git: p, Kept: kept}.refs(t.Context())
	requireRemedy(t, r)
	require.Contains(t, r.Fix, "what is not in the command (2)")
	paste(t, `cd `+owner.dir+`; git rev-parse v1 > ../v1; `+r.Command, owner.home, "")
	paste(t, `set -e; cd `+owner.dir+`; test "$(git rev-parse own-v1-2)" = "$(cat ../v1)"; test "$(git tag -l | xargs)" = "link own-v1 own-v1-2 own-v2"; git rev-parse --verify -q main; test "$(git symbolic-ref refs/tags/link)" = refs/heads/main; git symbolic-ref refs/tags/nowhere`, owner.home, "")

	// A tag that became a symbolic one after the page was printed.
	r = Project{Git: p, Kept: map[string]string{"refs/tags/own-v2": "x"}}.refs(t.Context())
	paste(t, `cd `+owner.dir+`; git tag -d own-v2; git symbolic-ref refs/tags/own-v2 refs/heads/main; `+r.Command+`; git rev-parse --verify -q refs/heads/main`, owner.home, "")

	r = Project{Git: p, Kept: map[string]string{"refs/tags/link": "x"}}.refs(t.Context())
	requireRemedy(t, r)
	require.Empty(t, r.Command)
	require.Contains(t, r.Fix, "symbolic refs")
}

// requireRemedy: each row that is not fine says what to do, and has one command or the reason why there is none.
func requireRemedy(t require.TestingT, r api.Finding) {
	if r.Works == api.WorksOK {
		require.Empty(t, r.Fix+r.Command+r.NoCommand, "%+v", r)
		return
	}
	require.NotEmpty(t, r.Fix, "%+v", r)
	require.NotEqual(t, r.Command == "", r.NoCommand == "", "%+v", r)
	for _, placeholder := range []string{" AGENT", " NAME", " KEY", " VALUE", " OLD ", " NEW", "YOUR ", "EXAMPLE"} {
		require.NotContains(t, r.Command, placeholder)
	}
}

func merged(a, b map[string]string) map[string]string {
	for k, v := range b {
		a[k] = v
	}
	return a
}

// Each row has a remedy for all that it can find.
func TestEveryRowHasARemedy(t *testing.T) {
	need.Root(t)
	for name, p := range map[string]Project{
		"plain": {Path: "/src/it's"},
		"links": {Path: "/x", Links: []outlinks.Link{{Path: "a\x1b[31m", Target: "/opt/it's\n"}}, Reload: "sudo systemctl reload polisd"},
		"error": {Path: "/x", LinksErr: syscall.EACCES},
	} {
		for _, r := range p.Findings(t.Context()) {
			requireRemedy(t, r)
			require.NotContains(t, r.Command, "\x1b", name)
			require.NotContains(t, r.Command, "\n", name)
		}
	}
	p := Project{Reload: "sudo kill -HUP 1"}
	for _, h := range []*wire.GitHooks{{Place: wire.HooksOutside, Names: []string{"pre-commit"}}, {Place: wire.HooksInGit, Names: []string{"pre-commit"}}} {
		p.Hooks = h
		requireRemedy(t, p.hooks())
	}
	p.Settings.Signs = true
	requireRemedy(t, p.signing())
	require.Equal(t, "sudo polisctl config set merge.sign true && sudo kill -HUP 1", p.signing().Command)
	for _, r := range []api.Finding{(Project{Submodules: "x", Git: nil, SubmodulesErr: syscall.EIO}).submodules(), (Project{HooksErr: syscall.EIO}).hooks(), (Project{HooksErr: syscall.EIO}).signing(),
		(Project{BegunErr: syscall.EIO}).inProgress(), (Project{LFSErr: syscall.EIO}).lfs()} {
		requireRemedy(t, r)
	}
}
