package fusefs

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// logged is a log that a test reads.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// holdBack has a program that makes a file in each of some directories of the view wait, and so keep the directory locked.
// end ends that.
func (v *view) holdBack(t testing.TB, dirs ...string) (end func()) {
	t.Helper()
	v.fs.Suspend()
	done := make(chan error, len(dirs))
	for _, dir := range dirs {
		v.g.set(func() { v.g.writes = nil })
		go func() { done <- os.WriteFile(v.in(dir+"/own"), nil, 0o644) }()
		require.Eventually(t, func() bool { return v.g.asked() }, 30*time.Second, time.Millisecond)
	}
	return sync.OnceFunc(func() {
		v.fs.Resume()
		for range dirs {
			require.NoError(t, <-done)
		}
	})
}

// waitsFor waits until so many threads wait for directories.
func (v *view) waitsFor(t testing.TB, n int) {
	t.Helper()
	q := &v.fs.echoes
	require.Eventually(t, func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return len(q.stuck) == n
	}, time.Minute, time.Millisecond)
}

// While a program's change keeps a directory locked, changes in others are shown. What cannot be shown in time is counted,
// logged, and programs that watch the root directory are notified.
func TestADirectoryInUseDelaysWhatIsShownOfNoOther(t *testing.T) {
	v := mountView(t)
	var log logged
	v.fs.log = slog.New(slog.NewTextHandler(&log, nil))
	for _, dir := range []string{"a", "b", "c", "d"} {
		require.NoError(t, os.Mkdir(v.raw(dir), 0o755))
	}
	root, b, d := watch(t, v.mnt), watch(t, v.in("b")), watch(t, v.in("d"))
	end := v.holdBack(t, "a", "b")
	defer end()
	root.events()
	for _, name := range []string{"a/f", "b/f", "b/g", "b/h", "d/f", "d/g"} {
		write(t, v.raw(name), name)
	}
	v.fs.ShowChanges([]Change{{Path: "a/f", Is: regular}, {Path: "b/f", Is: regular}, {Path: "b/g", Is: regular}, {Path: "b/h", Is: regular}, {Path: "d/f", Is: regular}})
	d.expect(t, "CREATE f")
	require.True(t, v.fs.ShowsChanges())
	v.fs.ShowChanges([]Change{{Path: "d/g", Is: regular}})
	d.expect(t, "CREATE g")

	v.waitsFor(t, 2)
	v.fs.echoTime.Store(0)
	root.expect(t, "ATTRIB ")
	require.Eventually(t, func() bool { return !v.fs.ShowsChanges() }, 30*time.Second, time.Millisecond)
	v.fs.echoTime.Store(int64(echoTime))
	require.EqualValues(t, 2, v.fs.LostChanges(), "of b; threads wait for showing one of a and one of b")
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), "changes=2")
	write(t, v.raw("d/h"), "")
	v.fs.ShowChanges([]Change{{Path: "d/h", Is: regular}})
	d.expect(t, "CREATE h")
	end()
	b.expect(t, "CREATE f")
	require.NotContains(t, b.events(), "CREATE g")
	v.fs.ShowChanges([]Change{{Path: "b/h", Is: regular}})
	b.expect(t, "CREATE h")
	require.EqualValues(t, 2, v.fs.LostChanges())
	require.Eventually(t, func() bool { return v.fs.echo.Load() == nil }, 30*time.Second, time.Millisecond, "no thread is left")
}

// The root directory is notified when it can be.
func TestARootDirectoryInUseIsNotifiedLater(t *testing.T) {
	v := mountView(t)
	root := watch(t, v.mnt)
	end := v.holdBack(t, ".")
	defer end()
	write(t, v.raw("f"), "")
	write(t, v.raw("g"), "")
	v.fs.ShowChanges([]Change{{Path: "f", Is: regular}, {Path: "g", Is: regular}})
	v.waitsFor(t, 1)
	v.fs.echoTime.Store(0)
	require.Eventually(t, func() bool { return !v.fs.ShowsChanges() }, 30*time.Second, time.Millisecond)
	require.EqualValues(t, 1, v.fs.LostChanges())
	end()
	root.expect(t, "CREATE f")
	root.expect(t, "ATTRIB ")
}

// More directories in use than threads may wait for.
func TestThreadsThatWaitToShowChangesAreBounded(t *testing.T) {
	v := mountView(t)
	var dirs []string
	var changes []Change
	for i := range maxStuck + 2 {
		dir := fmt.Sprintf("d%02d", i)
		dirs = append(dirs, dir)
		require.NoError(t, os.Mkdir(v.raw(dir), 0o755))
		write(t, v.raw(dir+"/f"), "")
		changes = append(changes, Change{Path: dir + "/f", Is: regular})
	}
	root := watch(t, v.mnt)
	end := v.holdBack(t, dirs...)
	defer end()
	v.fs.ShowChanges(changes)
	v.waitsFor(t, maxStuck)
	v.fs.echoTime.Store(0)
	require.Eventually(t, func() bool { return !v.fs.ShowsChanges() }, time.Minute, time.Millisecond)
	require.EqualValues(t, 2, v.fs.LostChanges())
	require.Len(t, *v.fs.echo.Load(), maxStuck)
	root.read()
	require.Empty(t, root.seen)
	end()
	root.expect(t, "ATTRIB ")
}
