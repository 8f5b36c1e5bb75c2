package pinned

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/internal/need"
)

const (
	ann = 4321
	bob = 4322
)

// home has a project of ann's below a directory of ann's, and one of bob's.
func home(t *testing.T) (dir string) {
	need.Root(t)
	dir = t.TempDir()
	for path, uid := range map[string]int{"ann/a/project/.git": ann, "ann/a/other/.git": ann, "bob/a/project/.git": bob, "root/a/project/.git": 0} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, path), 0o755))
		for p := path; p != "."; p = filepath.Dir(p) {
			require.NoError(t, os.Lchown(filepath.Join(dir, p), uid, uid))
		}
	}
	return dir
}

func TestARecordedProjectIsOpened(t *testing.T) {
	path := filepath.Join(home(t), "ann/a/project")
	r, err := Take(path)
	require.NoError(t, err)
	require.Equal(t, []uint32{ann, ann}, []uint32{r.UID, r.GID})
	require.NotNil(t, r.Git)
	b, err := json.Marshal(r)
	require.NoError(t, err)
	var stored Record
	require.NoError(t, json.Unmarshal(b, &stored))
	require.Equal(t, r, stored)
	dir, err := stored.Open()
	require.NoError(t, err)
	defer dir.Close()
	root, err := os.OpenRoot(DirPath(dir))
	require.NoError(t, err)
	require.NoError(t, root.Close())
	// What its owner does in it does not matter, and a .git that appears is for a person to adopt.
	require.NoError(t, os.WriteFile(filepath.Join(path, "file"), nil, 0o666))
	require.NoError(t, stored.Check())
}

func TestWhatIsExchangedIsNotOpened(t *testing.T) {
	mv := func(from, to string) func(string) error {
		return func(d string) error { return os.Rename(filepath.Join(d, from), filepath.Join(d, to)) }
	}
	ln := func(target, at string) func(string) error {
		return func(d string) error { return os.Symlink(filepath.Join(d, target), filepath.Join(d, at)) }
	}
	for name, steps := range map[string][]func(string) error{
		"a link in its place":               {mv("ann/a/project", "ann/a/away"), ln("bob/a/project", "ann/a/project")},
		"a link to itself":                  {mv("ann/a/project", "ann/a/away"), ln("ann/a/away", "ann/a/project")},
		"a link above it":                   {mv("ann/a", "ann/away"), ln("bob/a", "ann/a")},
		"a link above it, to root's":        {mv("ann/a", "ann/away"), ln("root/a", "ann/a")},
		"a link above it, to the same":      {mv("ann/a", "ann/away"), ln("ann/away", "ann/a")},
		"another directory of the owner":    {mv("ann/a/project", "ann/a/away"), mv("ann/a/other", "ann/a/project")},
		"another user's directory":          {mv("ann/a/project", "ann/a/away"), mv("bob/a/project", "ann/a/project")},
		"another user's directory above it": {mv("ann/a", "ann/away"), mv("bob/a", "ann/a")},
		"root's directory above it":         {mv("ann/a", "ann/away"), mv("root/a", "ann/a")},
		"nothing":                           {mv("ann/a/project", "ann/a/away")},
		"a file":                            {mv("ann/a/project", "ann/a/away"), func(d string) error { return os.WriteFile(filepath.Join(d, "ann/a/project"), nil, 0o644) }},
		"a pipe":                            {mv("ann/a/project", "ann/a/away"), func(d string) error { return unix.Mkfifo(filepath.Join(d, "ann/a/project"), 0o644) }},
		"another owner":                     {func(d string) error { return os.Lchown(filepath.Join(d, "ann/a/project"), bob, bob) }},
		"root as its owner":                 {func(d string) error { return os.Lchown(filepath.Join(d, "ann/a/project"), 0, 0) }},
		"another owner above it":            {func(d string) error { return os.Lchown(filepath.Join(d, "ann/a"), bob, bob) }},
		"another .git":                      {mv("ann/a/project/.git", "ann/a/away"), mv("ann/a/other/.git", "ann/a/project/.git")},
		"a link for its .git":               {mv("ann/a/project/.git", "ann/a/away"), ln("bob/a/project/.git", "ann/a/project/.git")},
		"no .git":                           {mv("ann/a/project/.git", "ann/a/away")},
		"a copy": {mv("ann/a/project", "ann/a/away"), func(d string) error {
			return os.CopyFS(filepath.Join(d, "ann/a/project"), os.DirFS(filepath.Join(d, "ann/a/away")))
		}, func(d string) error { return os.Lchown(filepath.Join(d, "ann/a/project"), ann, ann) }},
	} {
		t.Run(name, func(t *testing.T) {
			d := home(t)
			r, err := Take(filepath.Join(d, "ann/a/project"))
			require.NoError(t, err)
			for _, step := range steps {
				require.NoError(t, step(d))
			}
			require.ErrorIs(t, r.Check(), ErrChanged)
			// In another boot, devices are not compared.
			r.Dir.Boot, r.Dir.Device, r.Git.Boot, r.Git.Device = "earlier", 1, "earlier", 1
			require.ErrorIs(t, r.Check(), ErrChanged)
		})
	}
}

func TestADeviceIsComparedInTheSameBootOnly(t *testing.T) {
	r, err := Take(filepath.Join(home(t), "ann/a/project"))
	require.NoError(t, err)
	later := r
	later.Dir.Device++
	require.ErrorIs(t, later.Check(), ErrChanged)
	later.Dir.Boot = "earlier"
	require.NoError(t, later.Check())
	again, err := later.Refreshed()
	require.NoError(t, err)
	require.Equal(t, r, again)
}

func TestOnlyDirectoriesOfTheOwnerAreRecorded(t *testing.T) {
	d := home(t)
	require.NoError(t, os.Symlink("a", filepath.Join(d, "ann/link")))
	require.NoError(t, os.Lchown(filepath.Join(d, "bob/a/project"), ann, ann))
	for path, want := range map[string]string{
		"ann/link/project": "is a symbolic link", "bob/a/project": "belongs to uid 4322, who could exchange", "ann/a/none": "no such file", "ann/a/../a/project": "shortest form",
	} {
		_, err := Take(d + "/" + path)
		require.ErrorContains(t, err, want, path)
	}
	_, err := Record{}.Open()
	require.ErrorIs(t, err, ErrChanged)
}

// TestAnExchangeWhileItIsOpenedIsSeen: whatever is opened while its owner exchanges directories as fast as possible
// is the recorded one.
func TestAnExchangeWhileItIsOpenedIsSeen(t *testing.T) {
	d := home(t)
	r, err := Take(filepath.Join(d, "ann/a/project"))
	require.NoError(t, err)
	require.NoError(t, os.Symlink(filepath.Join(d, "bob/a"), filepath.Join(d, "ann/link")))
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(d, "ann/a"), unix.AT_FDCWD, filepath.Join(d, "ann/link"), unix.RENAME_EXCHANGE)
				_ = unix.Renameat2(unix.AT_FDCWD, filepath.Join(d, "bob/a"), unix.AT_FDCWD, filepath.Join(d, "root/a"), unix.RENAME_EXCHANGE)
			}
		}
	}()
	opened, refused := 0, 0
	for range 20000 {
		dir, err := r.Open()
		if err != nil {
			require.ErrorIs(t, err, ErrChanged)
			refused++
			continue
		}
		var st unix.Stat_t
		require.NoError(t, unix.Fstat(int(dir.Fd()), &st))
		require.Equal(t, uint32(ann), st.Uid)
		require.Equal(t, r.Dir.Inode, st.Ino)
		require.NoError(t, dir.Close())
		opened++
	}
	close(done)
	<-stopped
	require.Positive(t, refused, "%d opened", opened)
}

func TestNoDescriptorStaysOpen(t *testing.T) {
	d := home(t)
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(fds)
	}
	r, err := Take(filepath.Join(d, "ann/a/project"))
	require.NoError(t, err)
	before := count()
	require.NoError(t, r.Check())
	require.NoError(t, os.Rename(filepath.Join(d, "ann/a/project/.git"), filepath.Join(d, "git")))
	require.Error(t, r.Check())
	require.NoError(t, os.Rename(filepath.Join(d, "ann/a"), filepath.Join(d, "gone")))
	require.Error(t, r.Check())
	_, err = Take(filepath.Join(d, "ann/a/project"))
	require.Error(t, err)
	require.Equal(t, before, count())
}
