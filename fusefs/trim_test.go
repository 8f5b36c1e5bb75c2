package fusefs

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
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

// prunes reports whether the kernel drops inodes when a view asks it to.
func (v *view) prunes(t *testing.T) bool {
	switch e := v.fs.server.PruneNotify(nil); e {
	case 0:
		return true
	case syscall.EINVAL:
		return false // Linux before 6.18
	default:
		t.Fatal(e)
		return false
	}
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
		if !v.prunes(t) {
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
