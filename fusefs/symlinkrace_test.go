package fusefs

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// symlinkRace opens a name that is a file and a link in turns. The view must never follow the link
// itself: the kernel does, and the file that it opens is on another file system. An open whose name is
// replaced twice ends with ESTALE, as on NFS: the kernel repeats it once.
func symlinkRace(t *testing.T, dir string) {
	const rounds = 1000
	var top syscall.Stat_t
	require.NoError(t, syscall.Stat(dir, &top))
	name, file, link := filepath.Join(dir, "name"), filepath.Join(dir, "file"), filepath.Join(dir, "link")
	replace := func() error {
		return errors.Join(os.WriteFile(file, nil, 0o644), os.Rename(file, name), os.Symlink("/etc/passwd", link), os.Rename(link, name))
	}
	require.NoError(t, replace())
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		defer close(done)
		for range rounds {
			if err := replace(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	opened, followed := 0, 0
	for end := false; !end; {
		select {
		case <-done:
			end = true
		default:
		}
		fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		switch err {
		case nil:
		case syscall.ENOENT, syscall.ELOOP, syscall.EINVAL, syscall.ESTALE:
			continue
		default:
			t.Errorf("open: %v", err)
			continue
		}
		var st syscall.Stat_t
		err = syscall.Fstat(fd, &st)
		syscall.Close(fd)
		opened++
		if err == nil && st.Dev != top.Dev {
			followed++
		}
		if err == nil && st.Dev == top.Dev && st.Size > 0 {
			t.Error("the view opened the target of the link")
		}
	}
	wg.Wait()
	require.NotZero(t, opened)
	require.NotZero(t, followed, "the last one is a link")
}
