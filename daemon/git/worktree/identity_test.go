package worktree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/git"
)

// Each form in which an owner can configure an identity is what agents commit with: the answer is git's own.
func TestTheIdentityIsTheOneOfTheOwnersGit(t *testing.T) {
	needRoot(t)
	const base = "[user]\n\tname = Private\n\temail = private@home.example\n"
	for name, c := range map[string]struct {
		home    map[string]string // below the home; "@" stands for the project
		project []string          // key, value
		tree    []string          // of the worktree
		linked  bool              // the project is named by a path with a link
		author  git.Person
		commits git.Person // the committer, if another
	}{
		"none":         {},
		"global":       {home: map[string]string{".gitconfig": base}, author: git.Person{Name: "Private", Email: "private@home.example"}},
		"XDG file":     {home: map[string]string{".config/git/config": base}, author: git.Person{Name: "Private", Email: "private@home.example"}},
		"project":      {home: map[string]string{".gitconfig": base}, project: []string{"user.email", "work@corp.example"}, author: git.Person{Name: "Private", Email: "work@corp.example"}},
		"only a name":  {project: []string{"user.name", "Only"}, author: git.Person{Name: "Only"}},
		"include.path": {home: map[string]string{".gitconfig": base + "[include]\n\tpath = work.inc\n", "work.inc": "[user]\n\temail = inc@corp.example\n"}, author: git.Person{Name: "Private", Email: "inc@corp.example"}},
		"includeIf gitdir": {home: map[string]string{".gitconfig": base + "[includeIf \"gitdir:@/\"]\n\tpath = ~/work.inc\n[includeIf \"gitdir:/nowhere/\"]\n\tpath = ~/no.inc\n",
			"work.inc": "[user]\n\temail = dir@corp.example\n", "no.inc": "[user]\n\temail = no@corp.example\n"}, author: git.Person{Name: "Private", Email: "dir@corp.example"}},
		"includeIf gitdir, through a link": {home: map[string]string{".gitconfig": base + "[includeIf \"gitdir:@@/\"]\n\tpath = work.inc\n[includeIf \"gitdir:/nowhere/\"]\n\tpath = ~/no.inc\n",
			"work.inc": "[user]\n\temail = dir@corp.example\n", "no.inc": "[user]\n\temail = no@corp.example\n"}, linked: true, author: git.Person{Name: "Private", Email: "dir@corp.example"}},
		"includeIf hasconfig": {home: map[string]string{".gitconfig": base + "[includeIf \"hasconfig:remote.*.url:https://corp.example/**\"]\n\tpath = work.inc\n",
			"work.inc": "[user]\n\temail = url@corp.example\n"}, project: []string{"remote.origin.url", "https://corp.example/shop.git"}, author: git.Person{Name: "Private", Email: "url@corp.example"}},
		"worktree": {home: map[string]string{".gitconfig": base}, project: []string{"extensions.worktreeConfig", "true"}, tree: []string{"user.email", "tree@corp.example"},
			author: git.Person{Name: "Private", Email: "tree@corp.example"}},
		"author.email": {home: map[string]string{".gitconfig": base + "[author]\n\temail = a@corp.example\n"}, author: git.Person{Name: "Private", Email: "a@corp.example"},
			commits: git.Person{Name: "Private", Email: "private@home.example"}},
		"committer.email": {home: map[string]string{".gitconfig": base + "[committer]\n\tname = Robot\n\temail = c@corp.example\n"}, author: git.Person{Name: "Private", Email: "private@home.example"},
			commits: git.Person{Name: "Robot", Email: "c@corp.example"}},
		"crud": {home: map[string]string{".gitconfig": "[user]\n\tname = \" <Jo>\\n.Doe, \"\n\temail = \"<j@x>\"\n"}, author: git.Person{Name: "Jo.Doe", Email: "j@x"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, home := project(t), tempDir(t)
			named := dir
			if c.linked {
				require.NoError(t, os.Symlink(filepath.Dir(dir), filepath.Join(home, "src")))
				named = filepath.Join(home, "src", filepath.Base(dir))
			}
			for file, text := range c.home {
				text = strings.ReplaceAll(text, "@@/", filepath.Dir(named)+"/")
				write(t, filepath.Join(home, file), strings.ReplaceAll(text, "@/", dir+"/"))
			}
			if c.project != nil {
				as(t, 0, dir, append([]string{"config"}, c.project...)...)
			}
			if c.tree != nil {
				as(t, 0, dir, append([]string{"config", "--worktree"}, c.tree...)...)
			}
			p, err := up(t, spec(t, named)).Project(t.Context())
			require.NoError(t, err)
			require.Equal(t, named, p.Named())
			who, err := identityOf(t, p, home)
			require.NoError(t, err)
			if c.commits == (git.Person{}) {
				c.commits = c.author
			}
			require.Equal(t, git.Idents{Author: c.author, Committer: c.commits}, who)
			if c.author.Email != "" { // git itself
				out, err := p.Owners(t.Context(), home, "var", "GIT_COMMITTER_IDENT")
				require.NoError(t, err)
				require.Contains(t, string(out), c.commits.Name+" <"+c.commits.Email+"> ")
			}
		})
	}
}

func identityOf(t *testing.T, p *Project, home string) (git.Idents, error) {
	t.Helper()
	o, err := p.OwnersGit(t.Context(), home)
	if err != nil {
		return git.Idents{}, err
	}
	return o.Identity(t.Context())
}

// What the owner's configuration can say is data: it starts no program, has bounds, and does not block.
func TestAHostileIdentityIsRefused(t *testing.T) {
	needRoot(t)
	dir, home := project(t), tempDir(t)
	p, err := up(t, spec(t, dir)).Project(t.Context())
	require.NoError(t, err)
	ran := filepath.Join(tempDir(t), "ran")
	write(t, home+"/.gitconfig", "[user]\n\tname = "+strings.Repeat("n", 400)+"\n\temail = e@x\n[core]\n\tfsmonitor = touch "+ran+"\n\tpager = touch "+ran+"\n\teditor = touch "+ran+"\n[alias]\n\tvar = !touch "+ran+"\n")
	_, err = identityOf(t, p, home)
	require.ErrorContains(t, err, "more than 256 bytes")
	for _, bad := range []string{"a\\tb", "\xff\xfe"} {
		write(t, home+"/.gitconfig", "[user]\n\tname = \"A"+bad+"\"\n\temail = e@x\n")
		_, err = identityOf(t, p, home)
		require.Error(t, err, bad)
	}
	write(t, home+"/.gitconfig", "[user\n")
	_, err = identityOf(t, p, home)
	require.Error(t, err)
	require.NoFileExists(t, ran)
	require.NoError(t, os.Remove(home+"/.gitconfig"))
	who, err := identityOf(t, p, "relative")
	require.NoError(t, err)
	require.Zero(t, who)
}
