package fusefs

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/overlay"
	"polis/fusefs/shared"
)

// project is a view over an empty tree through which node_modules and .env*
// of another directory show.
type project struct {
	*view
	low, state string
	gone       *shared.Whiteouts
	paths      *shared.Paths
}

func mountProject(t testing.TB, fill func(low string), opts ...func(*Config)) *project {
	t.Helper()
	if os.Getenv("FUSEFS_OVERLAY") != "" {
		return mountProjectOver(t, overlayDir(t), fill, opts...)
	}
	return mountProjectOver(t, t.TempDir(), fill, opts...)
}

// mountProjectOver is mountProject with the directory of the tree.
func mountProjectOver(t testing.TB, back string, fill func(low string), opts ...func(*Config)) *project {
	t.Helper()
	needFUSE(t)
	p := &project{low: t.TempDir(), state: t.TempDir()}
	require.NoError(t, os.Mkdir(filepath.Join(p.state, "stage"), 0o700))
	fill(p.low)
	lowFD, stage := dirFDOf(t, p.low), dirFDOf(t, filepath.Join(p.state, "stage"))
	var err error
	p.paths, err = shared.NewPaths(shared.PathsConfig{Patterns: []string{"node_modules", ".env", ".env.*"}, Project: lowFD})
	require.NoError(t, err)
	p.gone, err = shared.OpenWhiteouts(filepath.Join(p.state, "gone"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.gone.Close()); require.NoError(t, p.paths.Close()) })
	all := append([]func(*Config){func(c *Config) {
		c.Shared = &overlay.Shared{Lower: lowFD, Paths: p.paths, Whiteouts: p.gone, Stage: stage}
	}}, opts...)
	p.view = mountViewOf(t, back, all...)
	t.Cleanup(func() { require.Empty(t, names(t, filepath.Join(p.state, "stage")), "staged copies are left") })
	return p
}

func dirFDOf(t testing.TB, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { backing.Close(fd) })
	return fd
}

func fillProject(t testing.TB) func(string) {
	return func(low string) {
		for name, text := range map[string]string{
			"node_modules/a/index.js": "a", "node_modules/a/lib/x.js": "x", "node_modules/b/index.js": "b",
			".env": "SECRET=1", ".env.local": "LOCAL=1", "src/main.js": "not shared", "other": "not shared",
		} {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(low, name)), 0o755))
			write(t, filepath.Join(low, name), text)
		}
		require.NoError(t, os.Link(filepath.Join(low, "node_modules/a/index.js"), filepath.Join(low, "node_modules/a/twin.js")))
		require.NoError(t, os.Symlink("../a/index.js", filepath.Join(low, "node_modules/b/link.js")))
		require.NoError(t, os.Chmod(filepath.Join(low, ".env"), 0o600))
	}
}

// dump is everything below dir that a program can see, as text.
func dump(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		require.NoError(t, err)
		rel, err := filepath.Rel(dir, p)
		require.NoError(t, err)
		fi, err := os.Lstat(p)
		require.NoError(t, err)
		text := fi.Mode().String()
		switch {
		case fi.Mode().IsRegular():
			text += " " + content(t, p)
		case fi.Mode()&os.ModeSymlink != 0:
			to, err := os.Readlink(p)
			require.NoError(t, err)
			text += " " + to
		}
		out[rel] = text
		return nil
	}))
	return out
}

func TestSharedNamesShowThroughAndNothingIsWritten(t *testing.T) {
	p := mountProject(t, fillProject(t))
	before := dump(t, p.low)
	require.Equal(t, []string{".env", ".env.local", "node_modules"}, names(t, p.mnt))
	require.Equal(t, []string{"index.js", "lib", "twin.js"}, names(t, p.in("node_modules/a")))
	require.Equal(t, "a", content(t, p.in("node_modules/a/index.js")))
	require.Equal(t, "a", content(t, p.in("node_modules/b/link.js")))
	require.Equal(t, "SECRET=1", content(t, p.in(".env")))
	require.Equal(t, os.FileMode(0o600), modeOf(t, p.in(".env")))
	for _, name := range []string{"src", "other"} {
		_, err := os.Lstat(p.in(name))
		require.ErrorIs(t, err, syscall.ENOENT)
	}
	require.Empty(t, names(t, p.back), "nothing is in the tree")
	require.Equal(t, before, dump(t, p.low))
}

func TestTheFirstChangeMakesANamePrivate(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, p *project){
		"write":    func(t *testing.T, p *project) { write(t, p.in("node_modules/a/index.js"), "mine") },
		"append":   func(t *testing.T, p *project) { appendTo(t, p.in("node_modules/a/index.js"), "!") },
		"truncate": func(t *testing.T, p *project) { require.NoError(t, os.Truncate(p.in("node_modules/a/index.js"), 0)) },
		"chmod":    func(t *testing.T, p *project) { require.NoError(t, os.Chmod(p.in("node_modules/a/index.js"), 0o755)) },
		"chmod dir": func(t *testing.T, p *project) {
			require.NoError(t, os.Chmod(p.in("node_modules/a"), 0o700))
			require.Equal(t, os.FileMode(0o700), modeOf(t, p.in("node_modules/a")).Perm())
			require.Equal(t, "a", content(t, p.in("node_modules/a/index.js")))
		},
		"utimes": func(t *testing.T, p *project) {
			require.NoError(t, os.Chtimes(p.in("node_modules/a/index.js"), time.Unix(1, 0), time.Unix(2, 0)))
		},
		"xattr": func(t *testing.T, p *project) {
			require.NoError(t, unix.Setxattr(p.in("node_modules/a/index.js"), "user.x", []byte("y"), 0))
		},
		"rename": func(t *testing.T, p *project) {
			require.NoError(t, os.Rename(p.in("node_modules/a/index.js"), p.in("node_modules/b/moved.js")))
			require.Equal(t, "a", content(t, p.in("node_modules/b/moved.js")))
			require.Equal(t, []string{"lib", "twin.js"}, names(t, p.in("node_modules/a")))
		},
		"rename over": func(t *testing.T, p *project) {
			write(t, p.in("node_modules/new"), "new")
			require.NoError(t, os.Rename(p.in("node_modules/new"), p.in("node_modules/a/index.js")))
			require.Equal(t, "new", content(t, p.in("node_modules/a/index.js")))
		},
		"rename of a link": func(t *testing.T, p *project) {
			var before, after unix.Stat_t
			require.NoError(t, unix.Lstat(p.in("node_modules/b/link.js"), &before))
			require.NoError(t, os.Rename(p.in("node_modules/b/link.js"), p.in("node_modules/b/moved.js")))
			require.NoError(t, unix.Lstat(p.in("node_modules/b/moved.js"), &after))
			require.Equal(t, []any{before.Uid, before.Gid, before.Mtim}, []any{after.Uid, after.Gid, after.Mtim})
			require.Equal(t, "a", content(t, p.in("node_modules/b/moved.js")))
			require.Equal(t, []string{"index.js", "moved.js"}, names(t, p.in("node_modules/b")))
		},
		"owner of a link": func(t *testing.T, p *project) {
			require.NoError(t, os.Lchown(p.in("node_modules/b/link.js"), 65534, 65534))
			require.Equal(t, "a", content(t, p.in("node_modules/b/link.js")))
		},
		"exchange": func(t *testing.T, p *project) {
			require.NoError(t, unix.Renameat2(unix.AT_FDCWD, p.in(".env"), unix.AT_FDCWD, p.in(".env.local"), unix.RENAME_EXCHANGE))
			require.Equal(t, "LOCAL=1", content(t, p.in(".env")))
		},
		"unlink": func(t *testing.T, p *project) {
			require.NoError(t, os.Remove(p.in("node_modules/a/index.js")))
			_, err := os.Lstat(p.in("node_modules/a/index.js"))
			require.ErrorIs(t, err, syscall.ENOENT)
			require.Equal(t, "a", content(t, p.in("node_modules/a/twin.js")))
		},
		"create": func(t *testing.T, p *project) {
			write(t, p.in("node_modules/a/lib/new.js"), "new")
			require.Equal(t, []string{"new.js", "x.js"}, names(t, p.in("node_modules/a/lib")))
		},
		"mkdir": func(t *testing.T, p *project) { require.NoError(t, os.Mkdir(p.in("node_modules/c"), 0o755)) },
		"mkdir of what is there": func(t *testing.T, p *project) {
			require.ErrorIs(t, os.Mkdir(p.in("node_modules/a"), 0o755), syscall.EEXIST)
			require.ErrorIs(t, os.Remove(p.in("node_modules/a")), syscall.ENOTEMPTY)
		},
		"remove all, make again": func(t *testing.T, p *project) {
			require.NoError(t, os.RemoveAll(p.in("node_modules")))
			require.Equal(t, []string{".env", ".env.local"}, names(t, p.mnt))
			require.NoError(t, os.MkdirAll(p.in("node_modules/a"), 0o755))
			require.Empty(t, names(t, p.in("node_modules/a")), "what was removed stays removed")
		},
		"directory moved away": func(t *testing.T, p *project) {
			require.ErrorIs(t, os.Rename(p.in("node_modules"), p.in("old")), syscall.EXDEV)
			require.NoError(t, os.Mkdir(p.in("node_modules/own"), 0o755))
			require.NoError(t, os.Rename(p.in("node_modules/own"), p.in("own")))
		},
		"directory moved over": func(t *testing.T, p *project) {
			require.NoError(t, os.Mkdir(p.in("fresh"), 0o755))
			require.ErrorIs(t, unix.Rename(p.in("fresh"), p.in("node_modules/a")), syscall.ENOTEMPTY)
			require.NoError(t, os.RemoveAll(p.in("node_modules/a")))
			require.NoError(t, os.Rename(p.in("fresh"), p.in("node_modules/a")))
			require.Empty(t, names(t, p.in("node_modules/a")))
		},
		"by a descriptor, without a name": func(t *testing.T, p *project) {
			f, err := os.Open(p.in("node_modules/a/index.js"))
			require.NoError(t, err)
			defer f.Close()
			require.NoError(t, os.Remove(f.Name()))
			require.NoError(t, f.Chmod(0o777), "of a copy that has no name either")
			b, err := io.ReadAll(f)
			require.NoError(t, err)
			require.Equal(t, "a", string(b))
		},
	} {
		check := func(t *testing.T, p *project) {
			before := dump(t, p.low)
			twin := content(t, p.in("node_modules/a/twin.js"))
			change(t, p)
			require.Equal(t, before, dump(t, p.low), "the project is as it was")
			if name != "remove all, make again" && name != "directory moved over" {
				require.Equal(t, twin, content(t, p.in("node_modules/a/twin.js")), "another name of the same inode is untouched")
			}
			// The same with no memory of the first mount.
			seen := dump(t, p.mnt)
			again := remount(t, p)
			require.Equal(t, seen, dump(t, again.mnt))
		}
		t.Run(name, func(t *testing.T) { check(t, mountProject(t, fillProject(t))) })
		// The tree is on another mount than the staging directory.
		t.Run(name+" above an overlay", func(t *testing.T) {
			back := overlayDir(t)
			needTmpfile(t, back)
			check(t, mountProjectOver(t, back, fillProject(t)))
		})
	}
}

// remount is a second view of the same directories, as after a crash.
func remount(t *testing.T, p *project) *view {
	t.Helper()
	gone, err := shared.OpenWhiteouts(filepath.Join(p.state, "gone"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, gone.Close()) })
	cfg := *p.fs.cfg.Shared
	cfg.Whiteouts = gone
	return mountView(t, func(c *Config) {
		c.Roots, c.Shared = []int{dirFDOf(t, p.back)}, &cfg
	})
}

func appendTo(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestAnOpenFileContinuesWithThePrivateCopy(t *testing.T) {
	p := mountProject(t, fillProject(t))
	r, err := os.Open(p.in(".env"))
	require.NoError(t, err)
	defer r.Close()
	wd, err := os.Open(p.in("node_modules/a/lib"))
	require.NoError(t, err)
	defer wd.Close()
	write(t, p.in(".env"), "SECRET=2 and more")
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "SECRET=2 and more", string(b), "a reader sees what is written through the same name")
	write(t, p.in("node_modules/a/lib/y"), "y")
	fd, err := unix.Openat(int(wd.Fd()), "y", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err, "a directory that was open stays the directory")
	backing.Close(fd)
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(wd.Fd()), &st))
	require.NotZero(t, st.Nlink)
}

func TestWhatTheUserChangesShowsUntilItIsPrivate(t *testing.T) {
	p := mountProject(t, fillProject(t))
	require.Equal(t, "LOCAL=1", content(t, p.in(".env.local")))
	write(t, p.in(".env"), "mine")
	write(t, filepath.Join(p.low, ".env"), "theirs")
	write(t, filepath.Join(p.low, ".env.local"), "LOCAL=2, longer")
	write(t, filepath.Join(p.low, ".env.new"), "NEW=1")
	require.NoError(t, os.RemoveAll(filepath.Join(p.low, "node_modules/b")))
	write(t, filepath.Join(p.low, "node_modules/c"), "c")
	eventually := func(what string, f func() bool) { require.Eventually(t, f, 20*time.Second, 20*time.Millisecond, what) }
	eventually("a changed file", func() bool { return content(t, p.in(".env.local")) == "LOCAL=2, longer" })
	eventually("a new file", func() bool { _, err := os.Lstat(p.in(".env.new")); return err == nil })
	eventually("the new listing", func() bool { return strings.Join(names(t, p.mnt), " ") == ".env .env.local .env.new node_modules" })
	eventually("the new listing below", func() bool { return strings.Join(names(t, p.in("node_modules")), " ") == "a c" })
	require.Equal(t, "mine", content(t, p.in(".env")))
}

func TestAHiddenNameDoesNotShowFromBelow(t *testing.T) {
	p := mountProject(t, fillProject(t), func(c *Config) {
		c.Guard.(*testGuard).visible = func(path string, _ bool) bool { return !strings.HasPrefix(path, ".env") }
	})
	require.Equal(t, []string{"node_modules"}, names(t, p.mnt))
	_, err := os.ReadFile(p.in(".env"))
	require.ErrorIs(t, err, syscall.ENOENT)
	require.ErrorIs(t, os.Rename(p.in(".env"), p.in("x")), syscall.ENOENT)
}
