package conn

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// forgetFS records what the kernel has forgotten, and lets it keep names.
type forgetFS struct {
	testFS
	forgot chan uint64
}

func (f *forgetFS) Lookup(c *Call, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	out.SetEntryTimeout(time.Hour)
	return f.testFS.Lookup(c, h, name, out)
}

func (f *forgetFS) Forget(node, _ uint64) { f.forgot <- node }

func TestPruneForgetsWhatNothingUses(t *testing.T) {
	overBoth(t, func(t *testing.T, over func(*Options)) {
		f := &forgetFS{forgot: make(chan uint64, 16)}
		c, dir := mount(t, f, over)
		if e := c.PruneNotify(nil); e != 0 {
			require.Equal(t, unix.EINVAL, e, "the kernel does not have it")
			return
		}
		require.NoError(t, openErr(filepath.Join(dir, "file")))
		used, err := unix.Open(filepath.Join(dir, "slow"), unix.O_PATH|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(used)
		many := []uint64{3, 2}
		for i := range uint64(2 * pruneBatch) {
			many = append(many, 100+i) // the kernel knows none of them
		}
		require.Zero(t, c.PruneNotify(many))
		select {
		case node := <-f.forgot:
			require.EqualValues(t, 2, node, "the other is in use")
		case <-time.After(20 * time.Second):
			t.Fatal("the kernel forgets nothing")
		}
		var st unix.Stat_t
		require.NoError(t, unix.Fstat(used, &st))
		require.EqualValues(t, 3, st.Ino)
	})
}
