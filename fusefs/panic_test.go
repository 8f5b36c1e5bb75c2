package fusefs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// panics serves args[0] at args[1] and has a handler panic with the name lock
// held: the object counter counts what is made under it.
func panics(back, mnt string) error {
	root, err := unix.Open(back, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer backing.Close(root)
	fs, err := New(Config{Roots: []int{root}, Guard: &brittleGuard{}, Mountpoint: mnt, FsName: "polis-test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := fs.Mount(ctx); err != nil {
		return err
	}
	err = os.Mkdir(filepath.Join(mnt, "d"), 0o755)
	return errors.Join(fmt.Errorf("the process continues after a panic: mkdir: %w", err), fs.Unmount(ctx))
}

type brittleGuard struct{ testGuard }

// Counted is part of ObjectCounter.
func (*brittleGuard) Counted(string, int) { panic("a fault of ours") }

// A panic in a handler ends the process that serves the view: locks would stay
// held, and threads keep a caller's identity.
func TestAPanicEndsTheProcess(t *testing.T) {
	needFUSE(t)
	back, mnt := t.TempDir(), t.TempDir()
	t.Cleanup(func() {
		if mounted(t, mnt) {
			require.NoError(t, unix.Unmount(mnt, unix.MNT_DETACH))
		}
	})
	c := helper(t, "panics", back, mnt)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	err := c.Run()
	require.Error(t, err)
	require.Contains(t, stderr.String(), "panic: a fault of ours")
	require.Contains(t, stderr.String(), "fusefs.(*FS).counted", "the place")
	require.NotContains(t, stderr.String(), "continues after")
}
