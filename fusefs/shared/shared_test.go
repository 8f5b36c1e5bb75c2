package shared

import (
	"crypto/sha512"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/internal/need"
)

func openDir(t testing.TB, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	return fd
}

func TestWhiteoutsCoverWhatIsBelowAndOutlivesTheProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gone")
	g, err := OpenWhiteouts(file)
	require.NoError(t, err)
	for _, p := range []string{"node_modules/a/b", "odd\nname/\xff", "node_modules/a"} {
		require.NoError(t, g.Add(p))
	}
	check := func(g *Whiteouts) {
		for p, want := range map[string]bool{
			"node_modules/a": true, "node_modules/a/c/d": true, "node_modules/ab": false, "node_modules": false, "": false,
			"odd\nname/\xff": true, "odd\nname": false,
		} {
			require.Equal(t, want, g.Has(p), "%q", p)
		}
	}
	check(g)
	// Killed in the middle of a line.
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`"half`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	again, err := OpenWhiteouts(file)
	require.NoError(t, err)
	check(again)
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(b), "node_modules/a/b", "what is covered is not kept")
	require.NoError(t, again.Close())
	require.NoError(t, g.Close())
}

func TestGoneIsASetOfTrees(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		file := filepath.Join(dir, strings.Repeat("x", 1+n%50))
		require.NoError(rt, os.RemoveAll(file))
		path := rapid.Custom(func(rt *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab"}), 1, 4).Draw(rt, "parts"), "/")
		})
		g, err := OpenWhiteouts(file)
		require.NoError(rt, err)
		added := rapid.SliceOf(path).Draw(rt, "added")
		for _, p := range added {
			require.NoError(rt, g.Add(p))
		}
		again, err := OpenWhiteouts(file)
		require.NoError(rt, err)
		for _, q := range rapid.SliceOf(path).Draw(rt, "asked") {
			want := false
			for _, p := range added {
				want = want || q == p || strings.HasPrefix(q, p+"/")
			}
			require.Equal(rt, want, g.Has(q))
			require.Equal(rt, want, again.Has(q))
		}
		require.NoError(rt, g.Close())
		require.NoError(rt, again.Close())
	})
}

func TestPathsAreThoseOfThePatternsThatGitIgnores(t *testing.T) {
	project := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(project, IncludeFile), []byte("# more\ncerts/\n/config/*.local\n!.env.example\n\n"), 0o644))
	p, err := NewPaths(PathsConfig{
		Patterns: []string{"node_modules", ".env", ".env.*"}, Project: openDir(t, project),
		Ignored: []func(string, bool) bool{func(path string, _ bool) bool { return !strings.HasPrefix(path, "tracked/") }},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	for _, c := range []struct {
		path, top string
		dir, want bool
	}{
		{"node_modules", "node_modules", true, true},
		{"node_modules/a/b", "node_modules", true, true},
		{"packages/x/node_modules/a", "packages/x/node_modules", true, true},
		{"src/main.js", "", true, false},
		{"", "", true, false},
		{".env", ".env", false, true},
		{".env.local", ".env.local", false, true},
		{".env.example", "", false, false},
		{".envrc", "", false, false},
		{"certs", "certs", true, true},
		{"certs", "certs", false, false},
		{"config/a.local", "config/a.local", false, true},
		{"deep/config/a.local", "", false, false},
		{"tracked/.env", "tracked/.env", false, false},
		{".git/x", "", true, false},
		{".git/.env", ".git/.env", false, false},
		{".github/sub/.git/hooks/.env", ".github/sub/.git/hooks/.env", false, false},
	} {
		require.Equal(t, c.top, p.Top(c.path), "%q", c.path)
		require.Equal(t, c.want, p.Shown(p.Top(c.path), c.dir), "%q", c.path)
	}
	require.NoError(t, os.WriteFile(filepath.Join(project, IncludeFile), []byte("!node_modules\n"), 0o644))
	require.Eventually(t, func() bool { return p.Top("node_modules/a") == "" && p.Top("certs") == "" }, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, os.Remove(filepath.Join(project, IncludeFile)))
	require.Eventually(t, func() bool { return p.Top("node_modules/a") != "" }, 20*time.Second, 20*time.Millisecond)
	_, err = NewPaths(PathsConfig{Patterns: []string{""}, Project: -1})
	require.Error(t, err)
}

func FuzzInclude(f *testing.F) {
	f.Add([]byte("certs/\n!x\n"))
	f.Add([]byte("#\n\n/a/**/b\n[z\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		ps, err := parseInclude(b)
		if err == nil {
			require.LessOrEqual(t, len(ps), maxPatterns)
			matches(ps, "a/b/c", false)
		}
	})
}

func store(t *testing.T) (*Store, string) {
	t.Helper()
	need.Root(t)
	dir := filepath.Join(t.TempDir(), "store")
	s, err := OpenStore(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, dir
}

func fileOf(t *testing.T, text string, mode os.FileMode) int {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	require.NoError(t, os.Chmod(name, mode))
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	return fd
}

func nameOf(text, suffix string) string {
	h := sha512.Sum512([]byte(text))
	s := hex.EncodeToString(h[:])
	return StoreName + "/v11/files/" + s[:2] + "/" + s[2:] + suffix
}

func inodeOf(t *testing.T, fd int) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(fd, &st))
	return st
}

func TestStoreKeepsContentOncePerPermissions(t *testing.T) {
	s, dir := store(t)
	var first uint64
	for i, mode := range []os.FileMode{0o644, 0o644, 0o755, 0o644} {
		src := fileOf(t, "text", mode)
		require.False(t, s.Marked(src))
		fd, err := s.Admit(t.Context(), nameOf("text", map[bool]string{true: "-exec"}[mode == 0o755]), src)
		require.NoError(t, err)
		require.True(t, s.Marked(fd))
		st := inodeOf(t, fd)
		require.Equal(t, uint32(mode), st.Mode&0o7777)
		require.Equal(t, inodeOf(t, src).Mtim.Sec, st.Mtim.Sec)
		if i == 0 {
			first = st.Ino
		}
		require.Equal(t, mode == 0o644, st.Ino == first)
		require.NoError(t, unix.Close(fd))
	}
	// Cut off by a crash of the machine: written again.
	files, err := filepath.Glob(filepath.Join(dir, "*", "*-644-*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.NoError(t, os.Truncate(files[0], 0))
	fd, err := s.Admit(t.Context(), nameOf("text", ""), fileOf(t, "text", 0o644))
	require.NoError(t, err)
	require.Equal(t, int64(4), inodeOf(t, fd).Size)
	require.NoError(t, unix.Close(fd))
	n, err := Sweep(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

func TestStoreRefusesWhatItCannotVouchFor(t *testing.T) {
	s, dir := store(t)
	good := fileOf(t, "text", 0o644)
	for what, c := range map[string]struct {
		path string
		fd   int
		err  error
	}{
		"another content":  {nameOf("other", ""), good, ErrContent},
		"no hash":          {StoreName + "/v11/index.db", good, ErrKind},
		"a temporary name": {nameOf("text", "123"), good, ErrKind},
		"another suffix":   {nameOf("text", "-exec2"), good, ErrKind},
		"another place":    {strings.Replace(nameOf("text", ""), "/files/", "/file/", 1), good, ErrKind},
		"not the store":    {"x/" + nameOf("text", ""), good, ErrKind},
		"set-id bits":      {nameOf("text", ""), fileOf(t, "text", 0o644|os.ModeSetuid), ErrKind},
		"a directory":      {nameOf("text", ""), openDir(t, dir), ErrKind},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := s.Admit(t.Context(), c.path, c.fd)
			require.ErrorIs(t, err, c.err)
		})
	}
	found, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	require.NoError(t, err)
	require.Empty(t, found)
	require.True(t, s.Shareable(nameOf("x", "-exec")))
	require.False(t, s.Shareable(nameOf("x", "tmp")))
}

// The quick look that spares most names the patterns agrees with them.
func TestTopIsTheFirstPrefixThatMatches(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := rapid.SliceOfN(rapid.SampledFrom([]string{"node_modules", ".env", ".env.*", "!.env.x", "a/b", "/c/", "*.pem", "**/d/e", "[ab]c", "f/**"}), 1, 5).Draw(rt, "patterns")
		p, err := NewPaths(PathsConfig{Patterns: all, Project: -1})
		require.NoError(rt, err)
		path := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "ac", ".env", ".env.x", ".env.y", "k.pem", "node_modules"}), 1, 4).Draw(rt, "path"), "/")
		want := ""
		for i := 0; i <= len(path) && want == ""; i++ {
			if i == len(path) || path[i] == '/' {
				if matches(p.fixed, path[:i], true) || i == len(path) && matches(p.fixed, path, false) {
					want = path[:i]
				}
			}
		}
		require.Equal(rt, want, p.Top(path))
	})
}

func BenchmarkTop(b *testing.B) {
	p, err := NewPaths(PathsConfig{Patterns: []string{"node_modules", ".env", ".env.*"}, Project: openDir(b, b.TempDir())})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		p.Top("src/cmd/compile/internal/ssa/rewrite.go")
	}
}
