package worktree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The path of a project counts for conditions of the owner's configuration only if nobody else chose it.
func TestANameOfAProjectIsItsOwners(t *testing.T) {
	needRoot(t)
	const ann, mallory = 4471, 4472
	dir := tempDir(t)
	real := filepath.Join(dir, "disk", "shop")
	require.NoError(t, os.MkdirAll(real, 0o755))
	for _, c := range []struct {
		name string
		uid  int // of the link
		want bool
	}{{"annes", ann, true}, {"roots", 0, true}, {"mallorys", mallory, false}, {"two\nlines", ann, false}} {
		link := filepath.Join(dir, c.name)
		require.NoError(t, os.Symlink("disk", link))
		require.NoError(t, os.Lchown(link, c.uid, c.uid))
		want := ""
		if c.want {
			want = link + "/shop"
		}
		require.Equal(t, want, namedBy(link+"/./shop/", real, ann), c.name)
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "of-mallory"), 0o755))
	require.NoError(t, os.Symlink("../disk", filepath.Join(dir, "of-mallory/link")))
	require.NoError(t, os.Lchown(filepath.Join(dir, "of-mallory"), mallory, mallory))
	require.Empty(t, namedBy(filepath.Join(dir, "of-mallory/link/shop"), real, ann), "a directory of another user's")
	require.Empty(t, namedBy(real, real, ann), "no links")
	require.Empty(t, namedBy(filepath.Join(dir, "nowhere/shop"), real, ann))
	require.Empty(t, namedBy("/"+strings.Repeat("a/", 4096), real, ann))
}

// A name that leads elsewhere later counts no more; the last name with links does.
func TestANameThatLeadsElsewhereDoesNotCount(t *testing.T) {
	needRoot(t)
	dir, home := project(t), tempDir(t)
	for _, name := range []string{"work", "play"} {
		require.NoError(t, os.Symlink(filepath.Dir(dir), filepath.Join(home, name)))
	}
	write(t, filepath.Join(home, ".gitconfig"), "[user]\n\tname = Ann\n\temail = ann@home.example\n[includeIf \"gitdir:"+home+"/work/\"]\n\tpath = work.inc\n[includeIf \"gitdir:"+home+"/play/\"]\n\tpath = play.inc\n")
	s := spec(t, filepath.Join(home, "work", filepath.Base(dir)))
	emailIs := func(want string) {
		t.Helper()
		p, err := up(t, s).Project(t.Context())
		require.NoError(t, err)
		who, err := identityOf(t, p, home)
		require.NoError(t, err)
		require.Equal(t, want, who.Author.Email)
	}
	write(t, filepath.Join(home, "work.inc"), "[user]\n\temail = ann@work.example\n")
	write(t, filepath.Join(home, "play.inc"), "[user]\n\temail = ann@play.example\n")
	emailIs("ann@work.example")
	s.Repo = dir // as root's scripts name it
	emailIs("ann@work.example")
	s.Repo = filepath.Join(home, "play", filepath.Base(dir))
	emailIs("ann@play.example")
	require.NoError(t, os.Remove(filepath.Join(home, "play")))
	require.NoError(t, os.Symlink(home, filepath.Join(home, "play")))
	s.Repo = dir
	emailIs("ann@home.example")
}
