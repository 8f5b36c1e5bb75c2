package fusefs

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The rules are swapped while an answer that was found under those of before is
// on its way. Once InvalidateAll has returned and the answer has come, nobody
// goes by it: not by a name nobody knew until then, not by its absence, not by
// a listing.
func TestNoAnswerOfBeforeOutlivesASwapOfTheRules(t *testing.T) {
	look := func(v *view) { _, _ = os.Lstat(v.in("d/late")) }
	list := func(v *view) { _, _ = os.ReadDir(v.in("d")) }
	for name, c := range map[string]struct {
		ask  func(*view)
		hide bool // by the new rules
	}{
		"a name that is hidden now":    {look, true},
		"a name that is shown now":     {look, false},
		"a listing with a name less":   {list, true},
		"a listing with one name more": {list, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := mountView(t)
			require.NoError(t, os.Mkdir(v.raw("d"), 0o755))
			write(t, v.raw("d/late"), "x")
			var hide, met atomic.Bool
			hide.Store(!c.hide)
			found := make(chan struct{})
			v.g.set(func() {
				v.g.visible = func(path string, _ bool) bool {
					shown := path != "d/late" || !hide.Load()
					if path == "d/late" && met.CompareAndSwap(false, true) {
						close(found)
						time.Sleep(100 * time.Millisecond)
					}
					return shown
				}
			})
			require.NoError(t, unix.Access(v.in("d"), unix.F_OK)) // known
			var wg sync.WaitGroup
			wg.Go(func() { c.ask(v) })
			<-found
			hide.Store(c.hide)
			v.fs.InvalidateAll()
			wg.Wait()
			_, err := os.Lstat(v.in("d/late"))
			require.Equal(t, c.hide, os.IsNotExist(err), "%v", err)
			names, err := os.ReadDir(v.in("d"))
			require.NoError(t, err)
			require.Equal(t, c.hide, len(names) == 0)
		})
	}
}

// The same under load, many times.
func TestRulesAreSwappedWhileEverybodyLooks(t *testing.T) {
	v := mountView(t)
	var hide atomic.Bool
	v.g.set(func() {
		v.g.visible = func(path string, _ bool) bool {
			no := hide.Load() && strings.Contains(path, "h")
			time.Sleep(time.Duration(len(path)%3) * 100 * time.Microsecond) // it is late when the answer is given
			return !no
		}
	})
	require.NoError(t, os.Mkdir(v.raw("d"), 0o755))
	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprintf("d/h%s", strings.Repeat("x", i)), fmt.Sprintf("d/s%s", strings.Repeat("x", i)))
	}
	for _, n := range names {
		write(t, v.raw(n), "x")
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	for h := range 3 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				_, _ = os.Lstat(v.in(names[(i*7+h)%len(names)]))
				if i%8 == h {
					_, _ = os.ReadDir(v.in("d"))
				}
			}
		})
	}
	for round := range 20 {
		hidden := round%2 == 0
		hide.Store(hidden)
		start := time.Now()
		v.fs.InvalidateAll()
		if time.Since(start) >= notifyWait { // a busy machine: the rest is done in the background
			v.fs.bg.Wait()
		}
		list, err := os.ReadDir(v.in("d"))
		require.NoError(t, err)
		if hidden {
			require.Len(t, list, 12, "round %d", round)
		} else {
			require.Len(t, list, 24, "round %d", round)
		}
		for _, n := range names {
			_, err := os.Lstat(v.in(n))
			if hidden && strings.Contains(n, "h") {
				require.ErrorIs(t, err, unix.ENOENT, "round %d: %s", round, n)
			} else {
				require.NoError(t, err, "round %d: %s", round, n)
			}
		}
	}
}

// leasing is a guard whose leases can be lost.
type leasing struct {
	testGuard
	lost atomic.Bool
}

type lease struct{ g *leasing }

func (l lease) Done()       {}
func (l lease) Valid() bool { return !l.g.lost.Load() }

func (g *leasing) Write(ctxT, Caller, Op, ...Target) (Ticket, syscall.Errno) { return lease{g}, 0 }

// A file that is open for writing is not written to any more when its lease is
// lost, by whatever call reaches the server, and is named if the kernel writes
// it without asking.
func TestNothingIsWrittenUnderALostLease(t *testing.T) {
	for _, direct := range []bool{false, true} {
		g := &leasing{}
		v := mountView(t, func(c *Config) { c.Guard, c.NoPassthrough = g, !direct })
		write(t, v.raw("f"), "old")
		for name, flags := range map[string]int{"f": unix.O_RDWR, "new": unix.O_RDWR | unix.O_CREAT} {
			g.lost.Store(false)
			fd, err := unix.Open(v.in(name), flags|unix.O_CLOEXEC, 0o644)
			require.NoError(t, err)
			put := func() error { _, err := unix.Pwrite(fd, []byte("new"), 0); return err }
			require.NoError(t, put())
			require.Empty(t, v.fs.StillOpen())

			g.lost.Store(true)
			require.ErrorIs(t, unix.Ftruncate(fd, 1), unix.EBUSY)
			require.ErrorIs(t, unix.Fallocate(fd, 0, 0, 100), unix.EBUSY)
			_, err = unix.Pread(fd, make([]byte, 8), 0)
			require.NoError(t, err, "reading needs no lease")
			if direct {
				require.Equal(t, []string{name}, v.fs.StillOpen())
			} else {
				require.ErrorIs(t, put(), unix.EBUSY)
				require.Empty(t, v.fs.StillOpen())
			}
			require.Equal(t, "new", content(t, v.raw(name)))

			g.lost.Store(false) // the server answers again
			require.NoError(t, put())
			require.NoError(t, unix.Close(fd))
			// The kernel releases it a moment later.
			g.lost.Store(true)
			require.Eventually(t, func() bool { return len(v.fs.StillOpen()) == 0 }, 30*time.Second, time.Millisecond)
		}
	}
}
