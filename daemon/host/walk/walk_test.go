package walk

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/internal/need"
)

const (
	ann = 4321
	bob = 4322
)

// tree makes directories and files ("name" or "name/" for a directory) with owners, and links ("name -> target").
type entry struct {
	path   string
	uid    int
	mode   os.FileMode
	target string // of a link
}

func tree(t *testing.T, entries ...entry) (dir string) {
	need.Root(t)
	dir = t.TempDir()
	for p := dir; len(p) > len(os.TempDir()); p = filepath.Dir(p) {
		require.NoError(t, os.Chmod(p, 0o755))
	}
	for _, e := range entries {
		p := filepath.Join(dir, e.path)
		switch {
		case e.target != "":
			target := e.target
			if target[0] == '/' {
				target = dir + target
			}
			require.NoError(t, os.Symlink(target, p))
		default:
			require.NoError(t, os.MkdirAll(p, 0o755))
			require.NoError(t, os.Chmod(p, e.mode))
		}
		require.NoError(t, os.Lchown(p, e.uid, e.uid))
	}
	return dir
}

func inode(t *testing.T, path string) uint64 {
	var st unix.Stat_t
	require.NoError(t, unix.Stat(path, &st))
	return st.Ino
}

func inodeOf(t *testing.T, f *os.File) uint64 {
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &st))
	return st.Ino
}

// world has a workspace of ann's in her own directory, one of bob's in his, and one in a directory of root's.
func world(t *testing.T) string {
	return tree(t,
		entry{path: "ann", uid: ann, mode: 0o755}, entry{path: "ann/work", uid: ann, mode: 0o755}, entry{path: "ann/work/.polis", mode: 0o755},
		entry{path: "ann/work/.polis/trees", mode: 0o700}, entry{path: "ann/work/.polis/trees/alice", uid: ann, mode: 0o700},
		entry{path: "ann/own", uid: ann, mode: 0o755}, entry{path: "ann/own/.polis", uid: ann, mode: 0o755},
		entry{path: "bob", uid: bob, mode: 0o700}, entry{path: "bob/work", uid: bob, mode: 0o755}, entry{path: "bob/work/.polis", mode: 0o755},
		entry{path: "bob/work/.polis/trees", mode: 0o700}, entry{path: "bob/work/.polis/trees/alice", uid: bob, mode: 0o755},
		entry{path: "root", mode: 0o700}, entry{path: "root/work", mode: 0o755}, entry{path: "root/work/.polis", mode: 0o755},
		entry{path: "open", mode: 0o777}, entry{path: "away", mode: 0o755}, entry{path: "away/trees", mode: 0o755},
	)
}

func TestADirectoryOfRootsIsOpened(t *testing.T) {
	d := world(t)
	require.NoError(t, os.Symlink(filepath.Join(d, "ann"), filepath.Join(d, "link")))
	for _, path := range []string{"ann/work/.polis", "root/work/.polis", "link/work/.polis", "ann/work/.polis/trees"} {
		f, err := Own(filepath.Join(d, path), ann)
		require.NoError(t, err, path)
		require.Equal(t, inode(t, filepath.Join(d, path)), inodeOf(t, f))
		require.Equal(t, inode(t, filepath.Join(d, path)), inode(t, Path(f, ".")))
		require.NoError(t, f.Close())
	}
	for _, path := range []string{"bob/work/.polis", "ann/own/.polis", "ann", "open"} {
		_, err := Own(filepath.Join(d, path), ann)
		require.ErrorIs(t, err, ErrForeign, path)
	}
	_, err := Own(filepath.Join(d, "none"), ann)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Own("relative/../../x", ann)
	require.ErrorIs(t, err, unix.EINVAL)
}

func TestWhoCanExchangeAPath(t *testing.T) {
	d := world(t)
	for path, by := range map[string]string{"root/work": "", "root/work/none": "", "none/none": "", "ann/work/.polis": "uid 4321", "ann/work/none/none": "uid 4321", "open/none": "all who can write in a directory above it"} {
		got, err := Exchangeable(filepath.Join(d, path))
		require.NoError(t, err, path)
		require.Equal(t, by, got, path)
	}
	require.NoError(t, os.Chmod(filepath.Join(d, "open"), os.ModeSticky|0o777))
	got, err := Exchangeable(filepath.Join(d, "open/none"))
	require.NoError(t, err)
	require.Empty(t, got, "what root makes there stays")
	require.NoError(t, os.Lchown(filepath.Join(d, "ann/work/.polis/trees"), bob, bob))
	_, err = Exchangeable(filepath.Join(d, "ann/work/.polis/trees"))
	require.ErrorIs(t, err, ErrForeign)
	_, err = Exchangeable("relative")
	require.ErrorIs(t, err, unix.EINVAL)
}

func TestErrorsNameThePathThatPeopleKnow(t *testing.T) {
	d := world(t)
	f, err := Own(filepath.Join(d, "root/work/.polis"), ann)
	require.NoError(t, err)
	defer f.Close()
	_, err = os.Open(Path(f, "none"))
	err = Named(err, f, "/w/.polis")
	require.EqualError(t, err, "open /w/.polis/none: no such file or directory")
	require.ErrorIs(t, err, os.ErrNotExist)
	err = Named(api.Errorf(api.CodeInternal, "read %s", Path(f, "x")), f, "/w/.polis")
	require.Equal(t, api.CodeInternal, api.CodeOf(err))
	require.Contains(t, err.Error(), "read /w/.polis/x")
	require.NoError(t, Named(nil, f, "/w"))
}

func TestNothingIsOpenedThroughALinkOfAUsers(t *testing.T) {
	d := world(t)
	swap := func(at, target string) {
		p := filepath.Join(d, at)
		require.NoError(t, os.Rename(p, p+".away"))
		require.NoError(t, os.Symlink(filepath.Join(d, target), p))
		require.NoError(t, os.Lchown(p, ann, ann))
	}
	back := func(at string) {
		p := filepath.Join(d, at)
		require.NoError(t, os.Remove(p))
		require.NoError(t, os.Rename(p+".away", p))
	}
	for _, target := range []string{"bob/work", "root/work", "ann/work.away"} {
		swap("ann/work", target)
		_, err := Own(filepath.Join(d, "ann/work/.polis"), ann)
		require.ErrorIs(t, err, ErrForeign, target)
		// A link that root made, moved to a directory of ann's, is ann's.
		require.NoError(t, os.Lchown(filepath.Join(d, "ann/work"), 0, 0))
		_, err = Own(filepath.Join(d, "ann/work/.polis"), ann)
		require.ErrorIs(t, err, ErrForeign, target)
		back("ann/work")
	}
}

func TestBelowADirectory(t *testing.T) {
	d := world(t)
	f, err := Own(filepath.Join(d, "ann/work/.polis"), ann)
	require.NoError(t, err)
	defer f.Close()
	alice := filepath.Join(d, "ann/work/.polis/trees/alice")
	require.NoError(t, os.WriteFile(filepath.Join(alice, "index"), nil, 0o600))
	require.NoError(t, os.Lchown(filepath.Join(alice, "index"), ann, ann))
	for _, rel := range []string{"trees/alice", "trees/alice/index", "trees"} {
		g, err := Below(f, rel, ann)
		require.NoError(t, err, rel)
		require.Equal(t, inode(t, filepath.Join(d, "ann/work/.polis", rel)), inodeOf(t, g))
		require.NoError(t, g.Close())
	}
	require.NoError(t, os.Symlink(filepath.Join(d, "root"), filepath.Join(alice, "link")))
	require.NoError(t, os.Symlink("index", filepath.Join(alice, "same")))
	require.NoError(t, os.Lchown(filepath.Join(alice, "same"), ann, ann))
	require.NoError(t, os.Mkdir(filepath.Join(alice, "bobs"), 0o755))
	require.NoError(t, os.Chown(filepath.Join(alice, "bobs"), bob, bob))
	for _, rel := range []string{"trees/alice/link/work", "trees/alice/link", "trees/alice/same", "trees/alice/bobs"} {
		_, err := Below(f, rel, ann)
		require.ErrorIs(t, err, ErrForeign, rel)
	}
	for _, rel := range []string{"../..", "", "trees/../../..", "/"} {
		if g, err := Below(f, rel, ann); err == nil {
			t.Errorf("%q was opened", rel)
			g.Close()
		}
	}
	// An administrator moves a directory to another disk.
	require.NoError(t, os.Rename(filepath.Join(d, "ann/work/.polis/trees"), filepath.Join(d, "away/moved")))
	require.NoError(t, os.Symlink(filepath.Join(d, "away/moved"), filepath.Join(d, "ann/work/.polis/trees")))
	g, err := Below(f, "trees/alice", ann)
	require.NoError(t, err)
	require.NoError(t, g.Close())
}

func TestSourcesOfAdministrators(t *testing.T) {
	d := tree(t,
		entry{path: "srv", mode: 0o755}, entry{path: "srv/data", mode: 0o755}, entry{path: "srv/link", target: "data"}, entry{path: "srv/secret", mode: 0o700},
		entry{path: "srv/secret/sub", mode: 0o755}, entry{path: "srv/of-bob", uid: bob, mode: 0o700},
		entry{path: "ann", uid: ann, mode: 0o755}, entry{path: "ann/dir", uid: ann, mode: 0o700}, entry{path: "ann/dir/sub", uid: ann, mode: 0o700},
		entry{path: "ann/to-data", uid: ann, target: "/srv/data"}, entry{path: "ann/to-secret", uid: ann, target: "/srv/secret/sub"},
		entry{path: "ann/to-bob", uid: ann, target: "/bob/private/sub"}, entry{path: "ann/of-root", mode: 0o700}, entry{path: "ann/of-root/sub", mode: 0o755},
		entry{path: "ann/of-bob", uid: bob, mode: 0o700}, entry{path: "ann/of-bob/sub", uid: bob, mode: 0o755},
		entry{path: "ann/roots-link", target: "/srv/secret/sub"},
		entry{path: "bob", uid: bob, mode: 0o755}, entry{path: "bob/private", uid: bob, mode: 0o700}, entry{path: "bob/private/sub", uid: bob, mode: 0o755},
	)
	for path, leads := range map[string]string{
		"srv/data": "srv/data", "srv/link": "srv/data", "srv/secret/sub": "srv/secret/sub", "srv/of-bob": "srv/of-bob",
		"ann/dir/sub": "ann/dir/sub", "ann/to-data": "srv/data", "ann/of-root": "ann/of-root", "bob/private/sub": "bob/private/sub",
		"ann/to-secret": "", "ann/to-bob": "", "ann/of-root/sub": "", "ann/of-bob/sub": "", "ann/roots-link": "",
	} {
		f, err := Source(filepath.Join(d, path), ann, ann)
		if leads == "" {
			require.ErrorIs(t, err, unix.EACCES, path)
			require.ErrorIs(t, err, ErrForeign, path)
			continue
		}
		require.NoError(t, err, path)
		require.Equal(t, inode(t, filepath.Join(d, leads)), inodeOf(t, f), path)
		require.NoError(t, f.Close())
	}
	_, err := Source(filepath.Join(d, "none"), ann, ann)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Source("srv", ann, ann)
	require.ErrorIs(t, err, unix.EINVAL)
	require.NoError(t, unix.Mkfifo(filepath.Join(d, "ann/pipe"), 0o644))
	f, err := Source(filepath.Join(d, "ann/pipe"), ann, ann)
	require.NoError(t, err, "it waits for nobody")
	require.NoError(t, f.Close())
	require.NoError(t, os.Symlink("loop", filepath.Join(d, "srv/loop")))
	_, err = Source(filepath.Join(d, "srv/loop"), ann, ann)
	require.ErrorIs(t, err, unix.ELOOP)
}

// TestWhatIsExchangedMeanwhile: nothing but ann's own is opened while ann exchanges directories and links as fast as
// possible.
func TestWhatIsExchangedMeanwhile(t *testing.T) {
	d := world(t)
	for _, who := range []string{"bob", "root"} {
		link := filepath.Join(d, "ann", "to-"+who)
		require.NoError(t, os.Symlink(filepath.Join(d, who, "work"), link))
		require.NoError(t, os.Lchown(link, ann, ann))
	}
	work := filepath.Join(d, "ann/work")
	mine := inode(t, filepath.Join(work, ".polis"))
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, work, unix.AT_FDCWD, filepath.Join(d, "ann", []string{"to-bob", "to-root", "own"}[i%3]), unix.RENAME_EXCHANGE)
			}
		}
	}()
	opened, refused := 0, 0
	for range 20000 {
		f, err := Own(filepath.Join(work, ".polis"), ann)
		if err != nil {
			require.ErrorIs(t, err, ErrForeign)
			refused++
			continue
		}
		require.Equal(t, mine, inodeOf(t, f))
		require.NoError(t, f.Close())
		opened++
	}
	close(done)
	<-stopped
	require.Positive(t, refused, "%d opened", opened)
}

func TestNoDescriptorIsLeft(t *testing.T) {
	d := world(t)
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(fds)
	}
	before := count()
	for _, path := range []string{"ann/work/.polis", "bob/work/.polis", "none", "ann/own/.polis"} {
		if f, err := Own(filepath.Join(d, path), ann); err == nil {
			require.NoError(t, f.Close())
		}
		if f, err := Source(filepath.Join(d, path), ann, ann); err == nil {
			require.NoError(t, f.Close())
		}
	}
	require.Equal(t, before, count())
}
