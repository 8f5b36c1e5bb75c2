package conn

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func openErr(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

// onFirst opens a file on the first processor, for each has readers of its own.
func onFirst(t *testing.T, path string) <-chan error {
	out := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // ends with the goroutine
		var set unix.CPUSet
		set.Set(0)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			t.Error(err)
		}
		out <- openErr(path)
	}()
	return out
}

func TestDataOfABigReadArrivesAndItsMemoryIsGivenBack(t *testing.T) {
	overBoth(t, func(t *testing.T, over func(*Options)) {
		c, dir := mount(t, &testFS{}, over)
		fd, err := unix.Open(filepath.Join(dir, "file"), unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		buf := make([]byte, maxData)
		for range 8 {
			n, err := unix.Pread(fd, buf, 0)
			require.NoError(t, err)
			require.Equal(t, maxData, n)
			require.Equal(t, byte(255), buf[maxData-1])
		}
		require.Eventually(t, func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			kb := 0
			for _, r := range c.readers {
				kb += resident(t, r.mem)
			}
			return kb < 2*len(c.readers)*kept>>10
		}, 10*time.Second, 50*time.Millisecond)
	})
}

// resident is the memory of a mapping that is really there, in kB (proc(5)).
func resident(t *testing.T, mem []byte) int {
	vec := make([]byte, (len(mem)+page-1)/page)
	_, _, e := unix.Syscall(unix.SYS_MINCORE, addr(mem), uintptr(len(mem)), addr(vec))
	require.Zero(t, e)
	n := 0
	for _, v := range vec {
		n += int(v & 1)
	}
	return n * page >> 10
}

func TestEnosysOfAnOpenIsAnErrorOfThatOpenOnly(t *testing.T) {
	overBoth(t, func(t *testing.T, over func(*Options)) {
		f := &testFS{}
		f.stat.Store(int32(fuse.ENOSYS))
		c, dir := mount(t, f, over)
		for range 2 {
			require.ErrorIs(t, openErr(filepath.Join(dir, "file")), unix.EIO)
		}
		require.EqualValues(t, 3, c.Counts()["OPEN"], "the kernel keeps asking (one is the probe's)")
		require.EqualValues(t, 1, c.Counts()["POLL"])
		f.stat.Store(4711)
		require.ErrorIs(t, openErr(filepath.Join(dir, "file")), unix.EIO, "what is no errno is still answered")
	})
}

func TestAPanicIsAnErrorOfOneCallIfTheFileSystemSaysSo(t *testing.T) {
	overBoth(t, func(t *testing.T, over func(*Options)) {
		f := &testFS{}
		f.boom.Store(true)
		caught := make(chan any, 1)
		_, dir := mount(t, f, over, func(o *Options) { o.OnPanic = func(v any) { caught <- v } })
		require.ErrorIs(t, openErr(filepath.Join(dir, "file")), unix.EIO)
		require.Equal(t, "boom", <-caught)
		f.boom.Store(false)
		require.NoError(t, openErr(filepath.Join(dir, "file")))
	})
}

// TestHandlersThatWaitDoNotHoldTheMountUp fills all readers but one with calls that wait without
// Call.Wait, and those that may be deferred: what cannot wait is answered, what might is refused, and
// it ends.
func TestHandlersThatWaitDoNotHoldTheMountUp(t *testing.T) {
	overBoth(t, func(t *testing.T, over func(*Options)) {
		const more = 4
		for _, limit := range []int{3, 40} {
			t.Run(strconv.Itoa(limit), func(t *testing.T) {
				var inside atomic.Int32
				enough := make(chan struct{})
				let := sync.OnceFunc(func() { close(enough) })
				f := &testFS{hold: func(*Call) { inside.Add(1); <-enough }}
				c, dir := mount(t, f, over, func(o *Options) { o.Readers, o.Deferred = limit, more })
				t.Cleanup(let) // before the unmounting: nothing may stay in the kernel
				if c.queues != nil {
					limit = int(c.queues[0].limit)
				}
				var callers sync.WaitGroup
				limit += more
				for range limit - 1 {
					// Look-ups of the others may take the last reader for a moment.
					callers.Go(func() {
						for errors.Is(<-onFirst(t, filepath.Join(dir, "slow")), unix.EAGAIN) {
						}
					})
				}
				require.Eventually(t, func() bool { return int(inside.Load()) == limit-1 }, 20*time.Second, time.Millisecond)
				require.ErrorIs(t, <-onFirst(t, filepath.Join(dir, "file")), unix.EAGAIN)
				var st unix.Stat_t
				require.NoError(t, unix.Stat(dir, &st))
				require.True(t, c.Alive())
				let()
				callers.Wait()
				require.Eventually(t, func() bool { return openErr(filepath.Join(dir, "file")) == nil }, 20*time.Second, time.Millisecond)
				require.Eventually(t, func() bool { return int(c.dev.readers.Load()) <= c.opts.Idle }, 20*time.Second, time.Millisecond, "readers that are too many end")
			})
		}
	})
}

func TestAnInterruptReachesTheCallThatWaits(t *testing.T) {
	overBoth(t, func(t *testing.T, over func(*Options)) {
		asked, told := make(chan struct{}), make(chan bool, 1)
		f := &testFS{hold: func(c *Call) {
			early := c.WasInterrupted()
			ch := c.Interrupted()
			close(asked)
			select {
			case <-ch:
			case <-time.After(20 * time.Second): // the test fails, the kernel does not hang
			}
			told <- !early && c.WasInterrupted()
		}}
		_, dir := mount(t, f, over)
		tid := make(chan int, 1)
		ended := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // ends with the goroutine
			tid <- unix.Gettid()
			ended <- openErr(filepath.Join(dir, "slow"))
		}()
		thread := <-tid
		<-asked
		require.NoError(t, unix.Tgkill(os.Getpid(), thread, syscall.SIGURG))
		select {
		case ok := <-told:
			require.True(t, ok)
		case <-time.After(20 * time.Second):
			t.Fatal("no interrupt")
		}
		require.ErrorIs(t, <-ended, unix.EINTR)
	})
}

func TestAnInterruptMeansOneRequestOnly(t *testing.T) {
	var c Call
	c.begin(8)
	require.False(t, c.interrupt(6))
	require.True(t, c.interrupt(8))
	require.True(t, c.interrupt(8), "twice is once")
	<-c.Interrupted()
	c.begin(10)
	require.False(t, c.WasInterrupted())
	require.False(t, c.interrupt(8))
	select {
	case <-c.Interrupted():
		t.Fatal("interrupted by another's")
	default:
	}
	require.True(t, c.interrupt(10))
	<-c.Interrupted()
}

func TestARequestWithoutANameAllocatesNothing(t *testing.T) {
	c := offline(t, &testFS{})
	r, err := newReader(c)
	require.NoError(t, err)
	for _, b := range [][]byte{wire(opGetattr, 16, ""), wire(opOpen, 8, ""), wire(opRelease, 24, "")} {
		require.Zero(t, testing.AllocsPerRun(20, func() {
			c.dev.waiting.Store(2)
			r.handle(copy(r.in, b))
		}))
		require.Len(t, answers(t, c), 21)
	}
}

func TestNotificationsSayWhatIsNotKnown(t *testing.T) {
	overBoth(t, func(t *testing.T, over func(*Options)) {
		c, dir := mount(t, &testFS{}, over)
		require.Equal(t, unix.ENOENT, c.InodeNotify(77, -1, 0))
		require.NoError(t, openErr(filepath.Join(dir, "file")))
		require.Zero(t, c.InodeNotify(2, 0, 0))
		require.Equal(t, unix.ENOENT, c.EntryNotify(77, "file"))
		require.Equal(t, unix.ENAMETOOLONG, c.EntryNotify(1, strings.Repeat("n", 256)))
		_, e := c.OpenBacking(-1)
		require.NotZero(t, e)
	})
}

func TestWhatCannotBeMountedIsRefusedAndLeavesNothing(t *testing.T) {
	_, err := Mount(&testFS{}, Options{})
	require.ErrorIs(t, err, ErrOptions)
	_, err = Mount(&testFS{}, Options{Mountpoint: t.TempDir(), Subtype: "a,b", MaxWrite: maxData})
	require.ErrorIs(t, err, ErrOptions)
	if os.Geteuid() == 0 {
		_, err = Mount(&testFS{}, Options{Mountpoint: "/proc/self/status", Subtype: "polistest", MaxWrite: maxData})
		require.ErrorIs(t, err, unix.ENOTDIR)
	}
}
