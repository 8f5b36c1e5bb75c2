package fusefs

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pathLeases is a guard that gives a lease for each path, and counts the tickets in use.
type pathLeases struct {
	testGuard
	uses atomic.Int64

	mu     sync.Mutex
	broken map[string]bool
}

type pathLease struct {
	g     *pathLeases
	paths []string
	over  atomic.Bool
}

func (l *pathLease) Done() {
	if l.over.Swap(true) {
		panic("a ticket is done twice")
	}
	l.g.uses.Add(-1)
}

func (l *pathLease) Valid() bool {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	for _, p := range l.paths {
		if l.g.broken[p] {
			return false
		}
	}
	return true
}

func (g *pathLeases) Write(_ ctxT, _ Caller, _ Op, targets ...Target) (Ticket, syscall.Errno) {
	l := &pathLease{g: g}
	for _, t := range targets {
		if !t.Source {
			l.paths = append(l.paths, t.Path)
		}
	}
	g.uses.Add(1)
	return l, 0
}

func (g *pathLeases) breakLease(path string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.broken = map[string]bool{path: true}
}

// A file that gets another name while it is open for writing is not written any more when the lease of that name is
// lost, and is written on when that of a name is lost which it has no more.
func TestAnOpenFileNeedsTheLeasesOfItsNewNames(t *testing.T) {
	g := &pathLeases{}
	v := mountView(t, func(c *Config) { c.Guard, c.NoPassthrough = g, true })
	f, err := os.OpenFile(v.in("n"), os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	write(t, v.raw("f"), "old")
	write(t, v.raw("other"), "other")
	lost := func(path string, yes bool) {
		t.Helper()
		g.breakLease(path)
		_, err := f.WriteAt([]byte("x"), 0)
		for i, err := range []error{err, f.Truncate(1), unix.Fallocate(int(f.Fd()), 0, 0, 10)} {
			if yes {
				require.ErrorIs(t, err, unix.EBUSY, "%d", i)
			} else {
				require.NoError(t, err, "%d", i)
			}
		}
	}
	g.breakLease("")
	require.NoError(t, os.Rename(v.in("n"), v.in("f")))
	lost("f", true)
	lost("other", false)
	require.NoError(t, os.Link(v.in("f"), v.in("g")))
	lost("g", true)
	lost("f", true)
	require.NoError(t, os.Remove(v.in("g")))
	lost("g", false)
	require.NoError(t, unix.Renameat2(unix.AT_FDCWD, v.in("f"), unix.AT_FDCWD, v.in("other"), unix.RENAME_EXCHANGE))
	lost("other", true)
	write(t, v.raw("third"), "")
	require.NoError(t, os.Rename(v.in("third"), v.in("other")))
	lost("other", false)
	require.NoError(t, f.Close())
	require.Eventually(t, func() bool { return g.uses.Load() == 0 }, 30*time.Second, time.Millisecond, "all tickets are given back")
}

// However often a file that is open is renamed, its open has the tickets of its names only.
func TestAnOpenFileThatIsRenamedOftenHasFewTickets(t *testing.T) {
	g := &pathLeases{}
	v := mountView(t, func(c *Config) { c.Guard = g })
	f, err := os.OpenFile(v.in("n0"), os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	for i := range 100 {
		require.NoError(t, os.Rename(v.in(fmt.Sprint("n", i)), v.in(fmt.Sprint("n", i+1))))
		require.NoError(t, os.Link(v.in(fmt.Sprint("n", i+1)), v.in("link")))
		require.NoError(t, os.Remove(v.in("link")))
		require.LessOrEqual(t, g.uses.Load(), int64(4))
	}
	require.NoError(t, f.Close())
	require.Eventually(t, func() bool { return g.uses.Load() == 0 }, 30*time.Second, time.Millisecond)
}
