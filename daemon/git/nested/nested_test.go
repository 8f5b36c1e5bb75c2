package nested_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/git/nested"
)

var a, b, c = strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("c", 40)

// repository makes a git directory of files.
func repository(t *testing.T, files map[string]string) *os.File {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{"refs", "objects"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	put(t, dir, map[string]string{"HEAD": "ref: refs/heads/main\n"})
	put(t, dir, files)
	f, err := os.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, []byte(text), 0o644))
	}
}

func TestRefsAreReadAsData(t *testing.T) {
	const far, near = "[remote \"origin\"]\n\turl = https://host/x\n", "[remote \"origin\"]\n\turl = /home/x\n"
	for name, tt := range map[string]struct {
		files          map[string]string
		head           string
		local, fetched []string
	}{
		"no commit":        {nil, "", nil, nil},
		"a branch":         {map[string]string{"refs/heads/main": a + "\n"}, a, []string{a}, nil},
		"detached":         {map[string]string{"HEAD": b + "\n", "refs/heads/main": a}, b, []string{a, b}, nil},
		"packed":           {map[string]string{"packed-refs": "# pack-refs\n" + a + " refs/heads/main\n^" + b + "\n"}, a, []string{a}, nil},
		"loose wins":       {map[string]string{"packed-refs": a + " refs/heads/main\n", "refs/heads/main": b}, b, []string{b}, nil},
		"a stash":          {map[string]string{"refs/stash": c}, "", []string{c}, nil},
		"fetched":          {map[string]string{"config": far, "refs/remotes/origin/main": a, "refs/remotes/origin/HEAD": "ref: refs/remotes/origin/main\n"}, "", nil, []string{a}},
		"a near remote":    {map[string]string{"config": near, "refs/remotes/origin/main": a}, "", []string{a}, nil},
		"near and far":     {map[string]string{"config": far + "\tpushurl = ../x\n", "refs/remotes/origin/main": a}, "", []string{a}, nil},
		"no remote":        {map[string]string{"refs/remotes/origin/main": a}, "", []string{a}, nil},
		"ssh":              {map[string]string{"config": "[remote \"o\"]\nurl = git@host:x\n", "refs/remotes/o/main": a}, "", nil, []string{a}},
		"a file address":   {map[string]string{"config": "[remote \"o\"]\nurl = file:///x\n", "refs/remotes/o/main": a}, "", []string{a}, nil},
		"a cloned tag":     {map[string]string{"packed-refs": a + " refs/tags/v1\n"}, "", nil, nil},
		"a tag":            {map[string]string{"refs/tags/v1": a}, "", []string{a}, nil},
		"another worktree": {map[string]string{"worktrees/w/HEAD": c}, "", []string{c}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := nested.ReadRefs(repository(t, tt.files))
			require.NoError(t, err)
			require.Equal(t, tt.head, r.Head)
			require.ElementsMatch(t, tt.local, r.Local)
			require.ElementsMatch(t, tt.fetched, r.Fetched)
		})
	}
}

func TestWhatIsOddIsAnError(t *testing.T) {
	for name, break_ := range map[string]func(dir string) error{
		"no HEAD": func(d string) error { return os.Remove(d + "/HEAD") },
		"HEAD is a link": func(d string) error {
			return exchange(d+"/HEAD", func() error { return os.Symlink("/etc/passwd", d+"/HEAD") })
		},
		"HEAD is a pipe": func(d string) error {
			return exchange(d+"/HEAD", func() error { return unix.Mkfifo(d+"/HEAD", 0o600) })
		},
		"HEAD is text":    func(d string) error { return os.WriteFile(d+"/HEAD", []byte("hello"), 0o600) },
		"refs are a link": func(d string) error { return exchange(d+"/refs", func() error { return os.Symlink("/", d+"/refs") }) },
		"a ref is text":   func(d string) error { return os.WriteFile(d+"/refs/x", []byte("hello"), 0o600) },
		"a reftable":      func(d string) error { return os.Mkdir(d+"/reftable", 0o700) },
		"packed is text":  func(d string) error { return os.WriteFile(d+"/packed-refs", []byte("hello\n"), 0o600) },
		"HEAD is huge":    func(d string) error { return os.Truncate(d+"/HEAD", 1<<30) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := repository(t, nil)
			require.NoError(t, break_(dir.Name()))
			_, err := nested.ReadRefs(dir)
			require.Error(t, err)
		})
	}
}

func exchange(name string, makes func() error) error {
	if err := os.RemoveAll(name); err != nil {
		return err
	}
	return makes()
}

func TestPlaces(t *testing.T) {
	top := t.TempDir()
	put(t, top, map[string]string{
		"module/.git": "gitdir: ../../x/worktrees/alice/modules/lib/modules/inner\n", "inside/.git/HEAD": "ref: refs/heads/main\n", "files/x": "x",
		"other/.git": "gitdir: ../../x/worktrees/bob/modules/lib\n", "out/.git": "gitdir: /x/worktrees/alice/modules/../../bob\n", "text/.git": "hello\n",
	})
	require.NoError(t, os.Mkdir(top+"/empty", 0o755))
	require.NoError(t, os.Symlink("module", top+"/link"))
	tree, err := os.Open(top)
	require.NoError(t, err)
	defer tree.Close()
	for name, want := range map[string]nested.Place{"module": {Module: "lib/modules/inner"}, "inside": {Inside: true}, "files": {Files: true}, "empty": {}, "missing": {}} {
		got, err := nested.PlaceOf(tree, name, "worktrees/alice")
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
	for _, name := range []string{"other", "out", "text", "link", "../" + filepath.Base(top)} {
		_, err := nested.PlaceOf(tree, name, "worktrees/alice")
		require.Error(t, err, name)
	}
}

func TestRelinkedRepositoriesNameTheOtherWorktree(t *testing.T) {
	top := t.TempDir()
	put(t, top, map[string]string{
		"modules/lib/HEAD": "", "modules/lib/objects/x": "", "modules/lib/config": "[core]\n\tworktree = ../../worktrees/alice/lib\n[alias]\n\tx = /worktrees/alice/\n",
		"tree/lib/.git": "gitdir: /w/worktrees/alice/modules/lib\n", "tree/lib/deep/in/.git": "gitdir: /w/worktrees/alice/modules/lib/modules/in\n", "tree/lib/text": "gitdir: /w/worktrees/alice/modules/lib\n",
	})
	require.NoError(t, os.Symlink("/", top+"/tree/lib/link"))
	modules, err := os.OpenRoot(top + "/modules")
	require.NoError(t, err)
	defer modules.Close()
	tree, err := os.OpenRoot(top + "/tree")
	require.NoError(t, err)
	defer tree.Close()
	require.NoError(t, nested.Relink(t.Context(), modules, tree, []string{"lib", "gone"}, "alice", "bob"))
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(top, name))
		require.NoError(t, err)
		return string(b)
	}
	require.Equal(t, "[core]\n\tworktree = ../../worktrees/bob/lib\n[alias]\n\tx = /worktrees/alice/\n", read("modules/lib/config"))
	require.Equal(t, "gitdir: /w/worktrees/bob/modules/lib\n", read("tree/lib/.git"))
	require.Equal(t, "gitdir: /w/worktrees/bob/modules/lib/modules/in\n", read("tree/lib/deep/in/.git"))
	require.Equal(t, "gitdir: /w/worktrees/alice/modules/lib\n", read("tree/lib/text"))
}
