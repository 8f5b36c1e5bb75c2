package conn

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/fusefs/fusectl"
)

// waitFS waits in every OPEN, by Call.Wait, for wait to return.
type waitFS struct {
	testFS
	wait func(c *Call, unique uint64)
	full atomic.Int32
}

func (f *waitFS) Open(c *Call, in *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	if in.NodeId != 3 {
		return fuse.OK
	}
	switch c.Wait(func() { f.wait(c, in.Unique) }) {
	case WaitAgain:
		return fuse.EIO // is not answered
	case WaitFull:
		f.full.Add(1)
		return fuse.EAGAIN
	}
	if c.WasInterrupted() {
		return fuse.EINTR
	}
	return fuse.OK
}

// numbered is an OPEN of the file that waits.
func numbered(unique uint64) []byte {
	b := wire(opOpen, 8, "")
	binary.NativeEndian.PutUint64(b[8:], unique)
	binary.NativeEndian.PutUint64(b[16:], 3)
	return b
}

// Requests are answered, interrupted and refused in any order: each is answered exactly once, an
// interrupt reaches its request wherever that is, the bound holds, and nothing is left.
func TestDeferredRequestsAreAnsweredOnceInAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const bound = 8
		release := map[uint64]chan struct{}{}
		entered := make(chan uint64, 64)
		var mu sync.Mutex
		f := &waitFS{wait: func(c *Call, unique uint64) {
			mu.Lock()
			ch := release[unique]
			mu.Unlock()
			entered <- unique
			select {
			case <-ch:
			case <-c.Interrupted():
			}
		}}
		c := offline(t, f)
		c.opts.Deferred = bound
		r, err := newReader(c)
		require.NoError(rt, err)
		c.mu.Lock()
		c.readers = append(c.readers, r)
		c.mu.Unlock()
		want := map[uint64]int32{} // the errno of each request
		var waiting []uint64
		next := uint64(2)
		take := func() uint64 {
			i := rapid.IntRange(0, len(waiting)-1).Draw(rt, "which")
			u := waiting[i]
			waiting = append(waiting[:i], waiting[i+1:]...)
			return u
		}
		rt.Repeat(map[string]func(*rapid.T){
			"open": func(rt *rapid.T) {
				if c.Deferred() != len(waiting) && len(waiting) < bound {
					rt.Skip("an answer is on its way")
				}
				u := next
				next += 2
				mu.Lock()
				release[u] = make(chan struct{})
				mu.Unlock()
				c.dev.waiting.Store(2)
				full := len(waiting) == bound
				if full {
					want[u] = -int32(unix.EAGAIN)
				}
				r.handle(copy(r.in, numbered(u)))
				r.call.answered.Store(r.call.unique.Load()) // as run does
				if !full {
					require.Equal(rt, u, <-entered)
					waiting = append(waiting, u)
				}
			},
			"answer": func(rt *rapid.T) {
				if len(waiting) == 0 {
					rt.Skip("none")
				}
				u := take()
				want[u] = 0
				close(release[u])
			},
			"interrupt": func(rt *rapid.T) {
				if len(waiting) == 0 {
					rt.Skip("none")
				}
				u := take()
				want[u] = -int32(unix.EINTR)
				require.True(rt, c.interrupt(u))
			},
			"interrupt what is answered": func(rt *rapid.T) {
				require.False(rt, c.interrupt(next))
			},
			"": func(rt *rapid.T) {
				require.LessOrEqual(rt, c.Deferred(), bound)
				require.True(rt, c.Settle(20*time.Second), "what waits is not awaited")
			},
		})
		for _, u := range waiting {
			want[u] = 0
			close(release[u])
		}
		c.running.Wait()
		require.Zero(rt, c.Deferred())
		require.Empty(rt, c.slots)
		got := map[uint64]int32{}
		for _, h := range answers(t, c) {
			require.NotContains(rt, got, h.Unique, "answered twice")
			got[h.Unique] = h.Status
		}
		require.Equal(rt, want, got)
		require.Equal(rt, []*reader{r}, c.readers)
		c.forget(r)
	})
}

// The number of deferred requests that run, and so may be in system calls, is bounded; those that
// wait do not count.
func TestDeferredRequestsRunAFewAtATime(t *testing.T) {
	var inside, most atomic.Int32
	let := make(chan struct{})
	f := &waitFS{wait: func(*Call, uint64) { <-let }}
	c := offline(t, f)
	c.fs = &countingFS{waitFS: f, inside: &inside, most: &most}
	r, err := newReader(c)
	require.NoError(t, err)
	const n = 20 * workers
	for i := range n {
		c.dev.waiting.Store(2)
		r.handle(copy(r.in, numbered(uint64(2*i+2))))
	}
	require.Equal(t, n, c.Deferred())
	close(let)
	c.running.Wait()
	require.Len(t, answers(t, c), n)
	require.LessOrEqual(t, int(most.Load()), workers)
	require.Positive(t, most.Load())
}

// countingFS counts the handlers that run after their wait.
type countingFS struct {
	*waitFS
	inside, most *atomic.Int32
}

func (f *countingFS) Open(c *Call, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	st := f.waitFS.Open(c, in, out)
	if st == fuse.OK {
		n := f.inside.Add(1)
		for m := f.most.Load(); n > m && !f.most.CompareAndSwap(m, n); m = f.most.Load() {
		}
		time.Sleep(time.Millisecond)
		f.inside.Add(-1)
	}
	return st
}

func TestWhatWaitsKeepsNoReader(t *testing.T) {
	overBoth(t, func(t *testing.T, over func(*Options)) {
		let := make(chan struct{})
		f := &waitFS{wait: func(*Call, uint64) { <-let }}
		c, dir := mount(t, f, over, func(o *Options) { o.Readers, o.Deferred = 3, 16 })
		open := sync.OnceFunc(func() { close(let) })
		t.Cleanup(open)
		var callers sync.WaitGroup
		var failed atomic.Int32
		for range 16 {
			callers.Go(func() {
				if err := openErr(filepath.Join(dir, "slow")); err != nil {
					failed.Add(1)
				}
			})
		}
		require.Eventually(t, func() bool { return c.Deferred() == 16 }, 20*time.Second, time.Millisecond)
		for range 20 {
			require.NoError(t, openErr(filepath.Join(dir, "file")))
		}
		require.ErrorIs(t, openErr(filepath.Join(dir, "slow")), unix.EAGAIN, "at the bound")
		open()
		callers.Wait()
		require.Zero(t, failed.Load())
		require.Eventually(t, func() bool { return c.Deferred() == 0 }, 20*time.Second, time.Millisecond)
	})
}

// When the connection ends, what waits is let go by its file system, and the connection's end
// waits for that.
func TestTheEndOfTheConnectionWaitsForDeferredRequests(t *testing.T) {
	overBoth(t, endWithDeferred)
}

func endWithDeferred(t *testing.T, over func(*Options)) {
	var conn atomic.Pointer[Conn]
	f := &waitFS{wait: func(*Call, uint64) { <-conn.Load().Dead() }}
	c, dir := mount(t, f, over)
	conn.Store(c)
	ended := make(chan error, 1)
	go func() { ended <- openErr(filepath.Join(dir, "slow")) }()
	require.Eventually(t, func() bool { return c.Deferred() == 1 }, 20*time.Second, time.Millisecond)
	var st unix.Stat_t
	require.NoError(t, unix.Stat(dir, &st))
	ctl, err := fusectl.Open(unix.Minor(st.Dev))
	require.NoError(t, err)
	require.NoError(t, ctl.Abort())
	require.NoError(t, ctl.Close())
	err = <-ended
	require.True(t, errors.Is(err, syscall.ENOTCONN) || errors.Is(err, syscall.ECONNABORTED), err)
	<-c.Done()
	require.Zero(t, c.Deferred())
}
