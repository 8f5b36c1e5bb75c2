package worktree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The patterns are those of core.excludesFile, wherever it is configured, and of info/exclude, in their order.
func TestTheIgnoreRulesOfTheOwner(t *testing.T) {
	needRoot(t)
	dir, home := project(t), tempDir(t)
	p, err := up(t, spec(t, dir)).Project(t.Context())
	require.NoError(t, err)
	ignored := func() string {
		t.Helper()
		o, err := p.OwnersGit(t.Context(), home)
		require.NoError(t, err)
		text, err := o.Ignored()
		require.NoError(t, err)
		return text
	}
	refused := func(what string) {
		t.Helper()
		o, err := p.OwnersGit(t.Context(), home)
		require.NoError(t, err)
		text, err := o.Ignored()
		require.ErrorContains(t, err, what)
		require.Equal(t, "local\n", text, "the rest counts")
	}
	require.Empty(t, ignored(), "the file of git's template has comments only")
	write(t, home+"/.config/git/ignore", "\ufeff# mine\n\n.idea/\n*.swp\r\n")
	write(t, dir+"/.git/info/exclude", "!keep.swp")
	require.Equal(t, ".idea/\n*.swp\r\n!keep.swp\n", ignored())
	write(t, dir+"/.git/info/exclude", "local\n")
	write(t, home+"/.gitconfig", "[include]\n\tpath = more\n")
	write(t, home+"/more", "[core]\n\texcludesFile = ~/my ignores\n")
	require.Equal(t, "local\n", ignored(), "git takes a file that does not exist for empty")
	write(t, home+"/my ignores", "a\n")
	require.Equal(t, "a\nlocal\n", ignored())
	as(t, 0, dir, "config", "core.excludesFile", "")
	require.Equal(t, "local\n", ignored())
	as(t, 0, dir, "config", "core.excludesFile", "file-of-the-project")
	write(t, dir+"/file-of-the-project", "b\n")
	require.Equal(t, "b\nlocal\n", ignored())

	// What merges bring does not choose a file of the owner's.
	as(t, 0, dir, "config", "--unset", "core.excludesFile")
	as(t, 0, dir, "config", "include.path", "../.gitconfig")
	write(t, home+"/secret", "hunter2\n")
	write(t, dir+"/.gitconfig", "[core]\n\texcludesFile = "+home+"/secret\n")
	refused("a file of the project itself")
	require.NoError(t, os.Remove(dir+"/.gitconfig"))
	for name, make := range map[string]func(path string) error{
		"more than": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("x\n", maxIgnored)), 0o644) },
		"lines are": func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("x\n", maxIgnoredLines+1)), 0o644)
		},
		"not a text":    func(path string) error { return os.WriteFile(path, []byte("x\x00"), 0o644) },
		"not a regular": func(path string) error { return unix.Mkfifo(path, 0o644) },
	} {
		require.NoError(t, os.Remove(home+"/my ignores"))
		require.NoError(t, make(filepath.Join(home, "my ignores")))
		refused(name)
	}
}
