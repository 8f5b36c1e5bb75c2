package fusefs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/overlayfs"
)

func TestTrimmerWaitsLongerForWhatComesBackSoon(t *testing.T) {
	p := trimmer{least: 8 * time.Second}
	now := time.Unix(1000, 0)
	require.Equal(t, 8*time.Second, p.grown(now))
	p.trimmed(now)
	require.Equal(t, 32*time.Second, p.grown(now.Add(time.Minute)))
	p.trimmed(now)
	require.Equal(t, 128*time.Second, p.grown(now.Add(time.Minute)))
	p.trimmed(now)
	require.Equal(t, 32*time.Second, p.grown(now.Add(time.Hour)), "it came back late")
	p.trimmed(now)
	require.Equal(t, 8*time.Second, p.grown(now.Add(2*time.Hour)))
	p.trimmed(now)
	require.Equal(t, 8*time.Second, p.grown(now.Add(3*time.Hour)), "never less")
	for range 20 {
		p.trimmed(now)
		p.grown(now)
	}
	require.Equal(t, trimAtMost, p.grown(now), "never more")
}

func TestAnIdleViewForgetsWhatNothingUses(t *testing.T) {
	idle := make(chan struct{}, 1)
	v := mountView(t, func(c *Config) {
		c.OnIdle = func() {
			select {
			case idle <- struct{}{}:
			default:
			}
		}
	})
	v.fs.trimmer.above, v.fs.trimmer.least = 50, 200*time.Millisecond
	for d := range 10 {
		require.NoError(t, os.Mkdir(v.raw(fmt.Sprintf("d%d", d)), 0o755))
		for f := range 10 {
			write(t, v.raw(fmt.Sprintf("d%d/f%d", d, f)), fmt.Sprintf("content %d %d", d, f))
		}
	}
	walk := func() {
		for d := range 10 {
			for f := range 10 {
				require.Equal(t, fmt.Sprintf("content %d %d", d, f), content(t, v.in(fmt.Sprintf("d%d/f%d", d, f))))
			}
		}
	}
	open := func(path string, flags int) int {
		fd, err := unix.Open(v.in(path), flags|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	file, path, dir := open("d3/f3", unix.O_RDONLY), open("d4/f4", unix.O_PATH), open("d5", unix.O_RDONLY|unix.O_DIRECTORY)
	partly := func() { // a walk that ends early
		d, err := os.Open(v.in("d6"))
		require.NoError(t, err)
		defer d.Close()
		_, err = d.Readdirnames(1)
		require.NoError(t, err)
	}
	lists := func() int {
		v.fs.lists.mu.Lock()
		defer v.fs.lists.mu.Unlock()
		return len(v.fs.lists.m)
	}
	for round := range 2 { // what came back is trimmed again
		partly()
		require.NotZero(t, lists())
		walk()
		require.Greater(t, v.fs.tree.Len(), 100)
		select {
		case <-idle:
		case <-time.After(time.Minute):
			t.Fatal("the view is not trimmed")
		}
		require.Zero(t, lists())
		if !v.fs.prunes() {
			break // the kernel keeps everything, and asks nothing more
		}
		// The root, the three that are in use, and the directories of two of them.
		require.Equal(t, 6, v.fs.tree.Len(), "round %d", round)
	}
	b := make([]byte, 32)
	n, err := unix.Pread(file, b, 0)
	require.NoError(t, err)
	require.Equal(t, "content 3 3", string(b[:n]))
	var held4, now unix.Stat_t
	require.NoError(t, unix.Fstat(path, &held4))
	require.NoError(t, unix.Stat(v.in("d4/f4"), &now))
	require.Equal(t, held4.Ino, now.Ino)
	require.NoError(t, unix.Fstatat(dir, "f5", &now, 0))
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file))
	require.NoError(t, err)
	require.Equal(t, v.in("d3/f3"), link, "an open file keeps its name")
	walk()
}

// An overlay above the view holds the inodes that it has looked up, and forgets them first.
func TestAnIdleViewBelowAnOverlayForgetsWhatNothingUses(t *testing.T) {
	needFUSE(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	l := overlayfs.Layers{Lower: []string{at("lower")}, Upper: at("hidden/view/" + UpperName), Work: at("hidden/view/" + WorkName), Target: at("merged")}
	for _, d := range []string{at("lower"), at("work"), at("merged"), at("hidden"), at("hidden/view")} {
		require.NoError(t, os.Mkdir(d, 0o700))
	}
	work, err := unix.Open(at("work"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(work)
	idle := make(chan struct{}, 1)
	eager := func(fs *FS) { fs.trimmer.above, fs.trimmer.least = 50, 200*time.Millisecond }
	v := mountPrepared(t, t.TempDir(), eager, func(c *Config) {
		c.Work, c.Mountpoint = work, at("hidden/view")
		c.BeforeTrim = func() { require.NoError(t, overlayfs.Forget(l.Target)) }
		c.OnIdle = func() {
			select {
			case idle <- struct{}{}:
			default:
			}
		}
	})
	require.NoError(t, overlayfs.Mount(l))
	t.Cleanup(func() { require.NoError(t, overlayfs.Unmount(l.Target)) })
	for f := range 100 {
		write(t, v.raw(fmt.Sprintf("f%d", f)), "mine")
	}
	for f := range 100 {
		require.Equal(t, "mine", content(t, filepath.Join(l.Target, fmt.Sprintf("f%d", f))))
	}
	held, err := os.Open(filepath.Join(l.Target, "f7"))
	require.NoError(t, err)
	defer held.Close()
	require.Greater(t, v.fs.tree.Len(), 100)
	select {
	case <-idle:
	case <-time.After(time.Minute):
		t.Fatal("the view is not trimmed")
	}
	if v.fs.prunes() { // else the kernel keeps everything
		require.Less(t, v.fs.tree.Len(), 10, "the directories of the overlay, and the file that is open")
	}
	require.NoError(t, held.Chmod(0o600))
	st, err := os.Stat(v.raw("f7"))
	require.NoError(t, err)
	require.EqualValues(t, 0o600, st.Mode().Perm(), "the open file is the same")
	require.Equal(t, "mine", content(t, filepath.Join(l.Target, "f99")))
}
