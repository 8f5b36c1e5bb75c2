package ignore

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func needGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("git is missing")
		}
		t.Skip("git is missing")
	}
}

type failer interface {
	require.TestingT
	Helper()
}

func git(t failer, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		require.NoError(t, err, "git %v", args)
	}
	return string(out)
}

func matcher(t failer, dir string, cfg Config) (*Matcher, func()) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	cfg.RootFD = fd
	m, err := New(cfg)
	require.NoError(t, err)
	return m, func() { require.NoError(t, m.Close()) }
}

func write(t failer, dir, name, text string) {
	t.Helper()
	p := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
	require.NoError(t, os.WriteFile(p, []byte(text), 0o600))
}

// Whatever the patterns, the levels and the index: a path is exempt exactly
// when git check-ignore says that git ignores it and does not track it.
func TestExemptAgreesWithGit(t *testing.T) {
	needGit(t)
	top := t.TempDir()
	name := rapid.SampledFrom([]string{"a", "b", "ab", "c.o", "d"})
	pattern := rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "*", "**", "*.o", "?", "[ab]", "d", "a*"}), 1, 3).Draw(t, "parts")
		s := strings.Join(parts, "/")
		s = rapid.SampledFrom([]string{"", "", "/"}).Draw(t, "lead") + s + rapid.SampledFrom([]string{"", "", "/", " "}).Draw(t, "trail")
		return rapid.SampledFrom([]string{"", "", "!"}).Draw(t, "not") + s
	})
	file := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(pattern, 0, 4).Draw(t, "lines"), "\n")
	})
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(top, "r")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		format := rapid.SampledFrom([]string{"sha1", "sha256"}).Draw(t, "format")
		git(t, dir, "", "init", "-q", "--object-format="+format)
		version := rapid.SampledFrom([]string{"2", "4"}).Draw(t, "version")
		var files []string
		for range rapid.IntRange(1, 10).Draw(t, "files") {
			p := strings.Join(rapid.SliceOfN(name, 1, 4).Draw(t, "path"), "/")
			if os.MkdirAll(filepath.Join(dir, filepath.Dir(p)), 0o755) != nil {
				continue // a file is in the way
			}
			if st, err := os.Stat(filepath.Join(dir, p)); err == nil && st.IsDir() {
				continue
			}
			write(t, dir, p, p)
			files = append(files, p)
		}
		write(t, dir, ".gitignore", file.Draw(t, "top"))
		write(t, dir, ".git/info/exclude", file.Draw(t, "exclude"))
		var paths []string
		dirs := map[string]bool{}
		require.NoError(t, filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
			if e.Name() == ".git" {
				return filepath.SkipDir
			}
			if rel, _ := filepath.Rel(dir, p); rel != "." && e.Name() != ".gitignore" {
				paths = append(paths, rel)
				dirs[rel] = e.IsDir()
				if e.IsDir() && rapid.IntRange(0, 3).Draw(t, "nested") == 0 {
					write(t, dir, rel+"/.gitignore", file.Draw(t, rel))
				}
			}
			return err
		}))
		var add strings.Builder
		for _, f := range files {
			if rapid.Bool().Draw(t, "track") {
				add.WriteString(f + "\x00")
			}
		}
		git(t, dir, add.String(), "update-index", "--index-version", version, "--add", "-z", "--force-write-index", "--stdin")
		want := strings.Split(git(t, dir, strings.Join(paths, "\x00")+"\x00", "check-ignore", "-z", "--stdin"), "\x00")
		m, closed := matcher(t, dir, Config{IndexPath: dir + "/.git/index", ExcludePath: dir + "/.git/info/exclude", Recheck: -1})
		defer closed()
		for range 2 {
			for _, p := range paths {
				require.Equal(t, slices.Contains(want, p), m.Exempt(p, dirs[p]), "%s dir=%v", p, dirs[p])
			}
		}
	})
}

func TestExempt(t *testing.T) {
	needGit(t)
	dir := t.TempDir()
	git(t, dir, "", "init", "-q")
	write(t, dir, ".gitignore", "\xef\xbb\xbf*.o\r\nbuild/\n# a comment\n\\#odd\nspace\\ \ntrail   \n")
	write(t, dir, "build/kept", "x")
	write(t, dir, "lib/a.o", "x")
	git(t, dir, "", "add", "-f", "build/kept")
	m, closed := matcher(t, dir, Config{IndexPath: dir + "/.git/index", ExcludePath: dir + "/.git/info/exclude", Recheck: -1})
	defer closed()
	for path, want := range map[string]bool{
		"x.o": true, "lib/x.o": true, "x.c": false, "build/new": true, "build/kept": false, "#odd": true,
		"space ": true, "trail": true, "a comment": false, "sub/.git/index": true, "sub/.gitx": false, ".git": false, "": false,
		"x/.github/.git/config": true, "x/.github/sub/.git": true, ".github/.git": true, ".github/x": false, "x/.gitignore": false,
	} {
		require.Equal(t, want, m.Exempt(path, false), "%q", path)
	}
	require.False(t, m.Exempt("build", true), "something in it is tracked")
	require.False(t, m.Exempt("build", false), "only the directory is ignored")

	git(t, dir, "", "rm", "-q", "--cached", "build/kept")
	require.True(t, m.Exempt("build/kept", false), "no longer tracked")
	write(t, dir, ".gitignore", "!x.o\n")
	require.False(t, m.Exempt("x.o", false), "no longer ignored")
}

func TestWhatCannotBeReadIsNotExempt(t *testing.T) {
	needGit(t)
	for name, spoil := range map[string]func(dir string) error{
		"index missing":   func(dir string) error { return os.Remove(dir + "/.git/index") },
		"index cut short": func(dir string) error { return os.Truncate(dir+"/.git/index", 40) },
		"index is a link": func(dir string) error {
			return firstErr(os.Rename(dir+"/.git/index", dir+"/.git/i"), os.Symlink("i", dir+"/.git/index"))
		},
		"index is a FIFO": func(dir string) error {
			return firstErr(os.Remove(dir+"/.git/index"), unix.Mkfifo(dir+"/.git/index", 0o600))
		},
		"rules are a link": func(dir string) error {
			return firstErr(os.Rename(dir+"/.gitignore", dir+"/g"), os.Symlink("g", dir+"/.gitignore"))
		},
		"rules are a FIFO": func(dir string) error {
			return firstErr(os.Remove(dir+"/.gitignore"), unix.Mkfifo(dir+"/.gitignore", 0o600))
		},
		"rules are too large": func(dir string) error { return os.Truncate(dir+"/.gitignore", maxIgnoreFile+1) },
		"too many rules": func(dir string) error {
			return os.WriteFile(dir+"/.gitignore", []byte(strings.Repeat("*.o\n", maxLines+1)), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			git(t, dir, "", "init", "-q")
			write(t, dir, ".gitignore", "*.o\n")
			git(t, dir, "", "add", ".gitignore")
			m, closed := matcher(t, dir, Config{IndexPath: dir + "/.git/index", Recheck: -1})
			defer closed()
			require.True(t, m.Exempt("a.o", false))
			require.NoError(t, spoil(dir))
			require.False(t, m.Exempt("a.o", false))
		})
	}
}

func firstErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A project without git has ignore rules all the same, and no index.
func TestWithoutGit(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, ".gitignore", "node_modules\n")
	m, closed := matcher(t, dir, Config{})
	defer closed()
	require.True(t, m.Exempt("node_modules/a/b", false))
	require.False(t, m.Exempt("src/a", false))
}

func TestRulesOutsideTheTreeDoNotCount(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "out/.gitignore", "*\n")
	require.NoError(t, os.Mkdir(dir+"/in", 0o755))
	require.NoError(t, os.Symlink("../out", dir+"/in/link"))
	m, closed := matcher(t, dir+"/in", Config{})
	defer closed()
	require.False(t, m.Exempt("link/a", false))
}

func FuzzParseIndex(f *testing.F) {
	if _, err := exec.LookPath("git"); err == nil {
		for _, version := range []string{"2", "3", "4"} {
			dir := f.TempDir()
			git(f, dir, "", "init", "-q")
			git(f, dir, "", "config", "index.version", version)
			write(f, dir, "a/b", "1")
			write(f, dir, "a/bc/d", "2")
			git(f, dir, "", "add", ".")
			b, err := os.ReadFile(dir + "/.git/index")
			require.NoError(f, err)
			f.Add(b, 20)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, hashLen int) {
		if hashLen != 32 {
			hashLen = 20
		}
		got, err := parseIndex(b, hashLen)
		if err != nil {
			require.ErrorIs(t, err, ErrIndex)
			return
		}
		require.True(t, slices.IsSorted(got.paths))
		require.LessOrEqual(t, len(got.paths), len(b)/40)
		for _, p := range got.paths {
			require.True(t, got.has(p))
		}
	})
}

func BenchmarkExemptWarm(b *testing.B) {
	dir := b.TempDir()
	write(b, dir, ".gitignore", strings.Repeat("*.o\nbuild/\n/dist\n", 10))
	m, closed := matcher(b, dir, Config{})
	defer closed()
	b.ReportAllocs()
	for b.Loop() {
		m.Exempt("some/where/deep/in/the/tree.go", false)
	}
}

func TestIndexVersions(t *testing.T) {
	needGit(t)
	for _, format := range []string{"sha1", "sha256"} {
		for _, version := range []string{"2", "3", "4"} {
			t.Run(format+" version "+version, func(t *testing.T) {
				dir := t.TempDir()
				git(t, dir, "", "init", "-q", "--object-format="+format)
				git(t, dir, "", "config", "index.version", version)
				want := []string{"a", "d/" + strings.Repeat("long/", 40) + "f", "d/x", "d/y z", "über"}
				for _, p := range want {
					write(t, dir, p, p)
				}
				git(t, dir, "", "add", ".")
				if version != "2" { // extended flags
					write(t, dir, "later", "")
					git(t, dir, "", "add", "-N", "later")
					want = append(want, "later")
				}
				b, err := os.ReadFile(dir + "/.git/index")
				require.NoError(t, err)
				if version != "2" || format == "sha256" {
					require.Equal(t, "\x00\x00\x00"+string(rune(version[0]-'0')), string(b[4:8]))
				}
				f := &source{}
				parseTracked(f, b)
				require.NoError(t, f.err)
				require.ElementsMatch(t, want, f.tracked.paths)
				require.True(t, f.tracked.below("d/long"))
				require.False(t, f.tracked.below("d/lon"))
			})
		}
	}
}

// A split index has its entries in another file: nothing is known then.
func TestSplitIndexIsNotUnderstood(t *testing.T) {
	needGit(t)
	dir := t.TempDir()
	git(t, dir, "", "init", "-q")
	write(t, dir, "a.o", "x")
	write(t, dir, ".gitignore", "*.o\n")
	git(t, dir, "", "add", "-f", "a.o")
	git(t, dir, "", "update-index", "--split-index")
	m, closed := matcher(t, dir, Config{IndexPath: dir + "/.git/index", Recheck: -1})
	defer closed()
	require.False(t, m.Exempt("a.o", false))
	require.False(t, m.Exempt("b.o", false))
}
