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

	"polis/daemon/api"
	"polis/daemon/githooks"
	"polis/daemon/outlinks"
	"polis/daemon/shim/wire"
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
		"attributes of the owner":  {row: Attributes, w: world{files: map[string]string{".config/git/attributes": "*.txt -diff"}}, then: `git check-attr diff a.txt | grep unset; test -z "$(git status --porcelain)"`},
		"attributes at a name":     {row: Attributes, w: world{files: map[string]string{"x'y $z": "*.txt -diff\n"}, config: map[string]string{"global": entryText("core.attributesFile", "~/x'y $z")}}},
		"attributes of the clone":  {row: Attributes, w: world{local: map[string]string{"info/attributes": "*.txt -diff\n"}, ours: map[string]string{".gitattributes": "*.c diff"}}, then: `grep -x '\*.c diff' .gitattributes; git check-attr diff a.txt | grep unset`},
		"autocrlf, local":          {row: LineEndings, w: world{config: map[string]string{"local": entryText("core.autocrlf", "input")}}},
		"autocrlf, worktree":       {row: LineEndings, w: world{linked: true, config: map[string]string{"local": entryText("extensions.worktreeConfig", "true"), "worktree": entryText("core.autocrlf", "input")}}},
		"autocrlf that adds CR":    {row: LineEndings, w: world{config: map[string]string{"global": entryText("core.autocrlf", "true") + entryText("core.eol", "crlf")}}, then: `test -z "$(git status --porcelain)"; ! grep -q $'\r' a.txt`},
		"a filter":                 {row: Filters, w: world{config: map[string]string{"xdg": entryText("filter.u'p $x.clean", "sed 's/a b/c/' %f") + entryText("filter.u'p $x.smudge", "cat")}, ours: map[string]string{".gitattributes": "*.up filter=\"u'p $x\"\n*.txt filter=up\n"}}},
		"status of the owner":      {row: Status, w: world{config: map[string]string{"global": entryText("status.showUntrackedFiles", "no") + entryText("submodule.l'i $b.ignore", "all"), "local": entryText("core.fileMode", "false")}}},
		"sparse":                   {row: Sparse, w: world{ours: map[string]string{"d ir'x/f": "f\n", "other/f": "f\n"}}, do: `git sparse-checkout set --no-cone "/d ir'x/" /dir/`, then: `test -e dir/b.c -a -e "d ir'x/f" -a ! -e other`},
		"an empty submodule":       {row: Submodules, w: world{module: "empty"}, then: "test -e lib/l.txt"},
		"a branch named as agents": {row: Refs, later: "git update-ref " + bad + " HEAD; git update-ref refs/heads/agent/-x HEAD; git branch own--x", then: "git rev-parse own--x-2"},
		"remotes":                  {row: Remotes, do: `git config remote.-x.url /r; git config 'remote.x y.url' /s; git config "remote.it's.url" /t; git remote add x /u`, then: `test "$(git remote | xargs)" = "it-s remote-2 x x-y"`},
		"a shallow clone":          {row: Layout, later: `git init -q --bare ../far; git push -q ../far main; git remote add origin "file://$PWD/../far"; git rev-parse HEAD > .git/shallow; git commit -q --allow-empty -m b`},
	} {
		t.Run(name, func(t *testing.T) {
			c.w.ours = merged(map[string]string{"a.txt": "one\n", "file.up": "shout\n", "dir/b.c": "int x;\n"}, c.w.ours)
			dir, err := os.MkdirTemp(base, "it's a $case")
			require.NoError(t, err)
			require.NoError(t, os.Chmod(dir, 0o755))
			c.w.before = c.do
			ws, _, owner := openWorld(t, t, c.w, dir)
			paste(t, "cd "+api.PastedWord(owner.dir)+"; "+c.later, owner.home, "")
			row := func() api.Finding {
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
					if r.Name == c.row {
						return r
					}
				}
				return api.Finding{}
			}
			before := row()
			require.Equal(t, api.WorksPartly, before.Works, "%+v", before)
			paste(t, before.Command, owner.home, c.answers)
			if after := row(); c.row == Filters { // what agents run, their new files are without
				require.Contains(t, after.Cost, "agents' git runs these filters")
			} else {
				require.Equal(t, api.WorksOK, after.Works, "%s\n%+v", before.Command, after)
			}
			paste(t, "set -e; cd "+api.PastedWord(owner.dir)+"; "+c.then, owner.home, "")
			require.NoFileExists(t, "/tmp/polis-pasted")
		})
	}
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
