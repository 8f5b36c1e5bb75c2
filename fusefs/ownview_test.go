package fusefs

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/fusectl"
)

// notifiesItself serves a view of back at mnt and goes through it, as it does for programs that watch a path. Its
// guard does not answer.
func notifiesItself(back, mnt string, rings bool) error {
	root, err := unix.Open(back, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer backing.Close(root)
	g := &testGuard{visible: func(path string, _ bool) bool {
		if path == "d" {
			fmt.Println("asked")
			select {}
		}
		return true
	}}
	fs, err := New(Config{Roots: []int{root}, Guard: g, Mountpoint: mnt, FsName: "polis-test", NoRing: !rings, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if err := fs.Mount(context.Background()); err != nil {
		return err
	}
	fs.InvalidatePath("d/f")
	select {}
}

// A process that is killed while it waits for an answer of its own view ends, and its connection with it.
func TestAKilledServerThatWaitsForItselfEnds(t *testing.T) {
	needFUSE(t)
	t.Run("from the device", func(t *testing.T) { killedWaiting(t, "device") })
	t.Run("from rings", func(t *testing.T) { killedWaiting(t, "rings") }) // where the kernel has them
}

func killedWaiting(t *testing.T, over string) {
	back, mnt := t.TempDir(), t.TempDir()
	require.NoError(t, os.Mkdir(back+"/d", 0o755))
	c := helper(t, "notifies itself", back, mnt, over)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "asked\n", line)
	at, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(mnt))
	require.NoError(t, err)
	require.Len(t, at, 1)
	connection, err := fusectl.OpenMounted(at[0])
	require.NoError(t, err)
	defer connection.Close()
	require.NoError(t, c.Process.Kill())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = c.Wait() }() //nolint:errcheck // it was killed
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the process does not end")
		require.NoError(t, connection.Abort())
		<-ended
	}
	require.ErrorIs(t, unix.Access(mnt+"/d", unix.F_OK), unix.ENOTCONN)
	require.NoError(t, unix.Unmount(mnt, unix.MNT_DETACH))
}
