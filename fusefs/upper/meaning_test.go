package upper

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs"
	"polis/internal/need"
)

type dirs map[string]bool

func (d dirs) IsDir(path string) (bool, error) {
	if path == "broken" {
		return false, syscall.EIO
	}
	return d[path], nil
}

// Each request of an overlay has one meaning; what no overlay requests is refused.
func TestMeaning(t *testing.T) {
	need.Root(t) // trusted attributes
	work := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(work, "copied-dir"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(work, "copied"), nil, 0o644))
	for _, name := range []string{"copied-dir", "copied"} {
		require.NoError(t, unix.Setxattr(filepath.Join(work, name), "trusted.overlay.origin", []byte("x"), 0))
	}
	fd, err := unix.Open(work, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	g := &Guard{tree: dirs{"dir": true}, work: fd}
	made := func(name string) fusefs.Target { return fusefs.Target{Path: fusefs.WorkPrefix + "/" + name} }
	madeDir := func(name string) fusefs.Target { t := made(name); t.Dir, t.Tree = true, true; return t }
	madeWhite := fusefs.Target{Path: fusefs.WorkPrefix + "/#1", Whiteout: true}
	at := func(path string) fusefs.Target { return fusefs.Target{Path: path} }
	atDir := func(path string) fusefs.Target { return fusefs.Target{Path: path, Dir: true} }
	tree := func(path string) fusefs.Target { return fusefs.Target{Path: path, Dir: true, Tree: true} }
	white := func(path string) fusefs.Target { return fusefs.Target{Path: path, Whiteout: true} }
	source := func(t fusefs.Target) fusefs.Target { t.Source = true; return t }
	type T = []fusefs.Target
	const refused = fusefs.Op("refused")
	for _, c := range []struct {
		name    string
		op      fusefs.Op
		targets T
		want    fusefs.Op
		about   T
	}{
		{"a change of a file", fusefs.OpSetattr, T{at("f")}, fusefs.OpSetattr, T{at("f")}},
		{"a rename in the tree", fusefs.OpRename, T{at("f"), at("g")}, fusefs.OpRename, T{at("f"), at("g")}},
		{"an exchange in the tree", fusefs.OpExchange, T{at("f"), at("g")}, fusefs.OpExchange, T{at("f"), at("g")}},
		{"a link in the tree", fusefs.OpLink, T{at("g"), source(at("f"))}, fusefs.OpLink, T{at("g"), source(at("f"))}},
		{"a file of the work directory", fusefs.OpCreate, T{made("#1")}, nothing, nil},
		{"a move in the work directory", fusefs.OpRename, T{made("#1"), made("#2")}, nothing, nil},
		{"a whiteout is linked", fusefs.OpLink, T{made("#1"), source(made("#2"))}, nothing, nil},
		{"a copy begins", fusefs.OpTmpfile, T{madeDir("work")}, fusefs.OpTmpfile, T{{Dir: true, Source: true}}},
		{"a copy gets its name", fusefs.OpLink, T{at("f"), source(made(""))}, fusefs.OpOpenWrite, T{at("f")}},
		{"a copy without a source gets its name", fusefs.OpLink, T{at("f")}, fusefs.OpLink, T{at("f")}},
		{"a copy is moved to its name", fusefs.OpRename, T{made("copied"), at("f")}, fusefs.OpOpenWrite, T{at("f")}},
		{"a new file replaces a whiteout", fusefs.OpRename, T{made("new"), at("f")}, fusefs.OpCreate, T{at("f")}},
		{"the copy of a directory", fusefs.OpRename, T{madeDir("copied-dir"), atDir("d")}, nothing, nil},
		{"a new directory", fusefs.OpRename, T{madeDir("new"), atDir("d")}, fusefs.OpMkdir, T{atDir("d")}},
		{"a whiteout removes a file", fusefs.OpRename, T{madeWhite, at("f")}, fusefs.OpUnlink, T{at("f")}},
		{"a whiteout removes a directory of the base", fusefs.OpRename, T{madeWhite, at("dir")}, fusefs.OpRmdir, T{atDir("dir")}},
		{"what it removes is not known", fusefs.OpRename, T{madeWhite, at("broken")}, refused, nil},
		{"a whiteout takes the place of a directory", fusefs.OpExchange, T{madeWhite, tree("d")}, fusefs.OpRmdir, T{atDir("d")}},
		{"an empty directory takes the place of one with whiteouts", fusefs.OpExchange, T{madeDir("new"), tree("d")}, fusefs.OpRmdir, T{atDir("d")}},
		{"a new directory takes the place of a whiteout", fusefs.OpExchange, T{madeDir("new"), white("d")}, fusefs.OpMkdir, T{atDir("d")}},
		{"a whiteout takes the place of a file", fusefs.OpExchange, T{madeWhite, at("f")}, fusefs.OpUnlink, T{at("f")}},
		{"a directory moves to a whiteout", fusefs.OpExchange, T{tree("d"), white("e")}, fusefs.OpRename, T{tree("d"), tree("e")}},
		{"a whiteout that is left is removed", fusefs.OpUnlink, T{white("d")}, nothing, nil},
		{"a file replaces a directory", fusefs.OpExchange, T{made("new"), tree("d")}, refused, nil},
		{"a whiteout is renamed", fusefs.OpRename, T{white("a"), at("b")}, refused, nil},
		{"two whiteouts are exchanged", fusefs.OpExchange, T{white("a"), white("b")}, refused, nil},
		{"a file is moved to the work directory", fusefs.OpRename, T{at("f"), made("#1")}, refused, nil},
		{"a link to a file begins", fusefs.OpLink, T{made("#1"), source(at("f"))}, fusefs.OpLink, T{source(at("f"))}},
		{"a link to a file with two names begins", fusefs.OpLink, T{made("#1"), source(at("f")), source(at("g"))}, fusefs.OpLink, T{source(at("f")), source(at("g"))}},
		{"a change of a file while a link to it begins", fusefs.OpOpenWrite, T{at("f"), made("#1")}, fusefs.OpOpenWrite, T{at("f")}},
		{"a link to a file with a second link under way", fusefs.OpLink, T{at("g"), source(at("f")), source(made("#1"))}, fusefs.OpLink, T{at("g"), source(at("f"))}},
	} {
		op, about, e := g.meaning(c.op, c.targets)
		if c.want == refused {
			require.NotZero(t, e, c.name)
			continue
		}
		require.Zero(t, e, c.name)
		require.Equal(t, c.want, op, c.name)
		require.Equal(t, c.about, about, c.name)
	}
}
