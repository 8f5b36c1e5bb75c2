package leftover

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// children waits until a process has so many children, and returns them, the oldest first.
func (f *family) children(of, n int) (out []int) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(of) + "/task/" + strconv.Itoa(of) + "/children")
		out = nil
		for _, word := range strings.Fields(string(b)) {
			pid, e := strconv.Atoi(word)
			err = errors.Join(err, e)
			out = append(out, pid)
		}
		return err == nil && len(out) == n
	}, 30*time.Second, time.Millisecond)
	return out
}

// nested starts a process with a child that has two, of which the second, leaf, has a successor when it ends.
func (f *family) nested() (head, mid, old, leaf int) {
	f.t.Helper()
	head = f.start("sh -c 'sleep 100 & sleep 101 & wait $!; sleep 102 & wait' & wait; sleep 103")
	mid = f.children(head, 1)[0]
	both := f.children(mid, 2)
	return head, mid, both[0], both[1]
}

// gone waits for the end of a process that it kills.
func (f *family) gone(pid int) {
	f.t.Helper()
	require.NoError(f.t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(f.t, func() bool { _, alive := readProcess("/proc", pid); return !alive }, 30*time.Second, time.Millisecond)
}

func TestTheLineOfAProcess(t *testing.T) {
	f := &family{t, map[int]bool{}}
	tr := &Tracker{Procs: f.procs}
	main, mid, _, leaf := f.nested()
	guest, guests := f.tree()
	tr.Guest(guest, false)
	boxInit, orphan := f.tree()
	roots := Roots{Parent: os.Getpid(), Init: boxInit, Main: main}
	pids := func(l Line) (out []int) {
		for _, a := range l.Procs {
			out = append(out, a.PID)
		}
		return out
	}
	l, ok := tr.LineOf(leaf, roots)
	require.True(t, ok)
	require.Equal(t, []int{leaf, mid, main}, pids(l))
	l, ok = tr.LineOf(main, roots)
	require.True(t, ok)
	require.Equal(t, []int{main}, pids(l))
	for name, pid := range map[string]int{"a person's": guests, "left by its parents": orphan, "the init": boxInit, "outside": os.Getpid(), "not visible": 0, "another command": guest} {
		_, ok := tr.LineOf(pid, roots)
		require.False(t, ok, name)
	}
	roots.Main = -1
	_, ok = tr.LineOf(leaf, roots)
	require.False(t, ok, "the command is being started")
}

// TestWhatIsUnderALine: the nearest process that lives, and what it has started since. When it has ended, nothing is: its
// parents are not asked for.
func TestWhatIsUnderALine(t *testing.T) {
	f := &family{t, map[int]bool{}}
	tr := &Tracker{Procs: f.procs}
	main, mid, old, leaf := f.nested()
	other, others := f.tree()
	l, ok := tr.LineOf(leaf, Roots{Parent: os.Getpid(), Init: -1, Main: main})
	require.True(t, ok)
	var since uint64
	require.Eventually(t, func() bool { // all of these are older
		last, ok := readProcess("/proc", others)
		now, err := Now()
		since = now
		return ok && err == nil && now > last.start && now > l.Procs[0].Start
	}, 30*time.Second, time.Millisecond)
	under := func(pid int, l Line) bool { _, ok := tr.Under(pid, l, since); return ok }
	require.True(t, under(leaf, l))
	for name, pid := range map[string]int{"an ancestor of what asked": mid, "the command": main, "a sibling": old, "another": other, "its child": others, "outside": os.Getpid(), "not visible": 0} {
		require.False(t, under(pid, l), name)
	}
	require.False(t, under(leaf, Line{Procs: []At{{leaf, l.Procs[0].Start + 1}}, Whole: true}), "another process had the number")

	f.gone(leaf) // a hook has ended: what it was called by, and what that starts, uses the answer
	newer := 0
	require.Eventually(t, func() bool {
		for _, pid := range f.children(mid, 2) {
			if pid != old && pid != leaf {
				newer = pid
			}
		}
		return newer != 0
	}, 30*time.Second, time.Millisecond)
	require.True(t, under(newer, l))
	require.False(t, under(old, l), "it is older than the answer")
	require.False(t, under(main, l))
	rest, ok := tr.Under(mid, l, since)
	require.True(t, ok)
	require.Equal(t, Line{Procs: []At{l.Procs[1]}}, rest)
	require.True(t, under(newer, rest))
	require.False(t, under(old, rest))

	f.gone(mid)
	require.False(t, under(main, rest), "it does not pass to another process")
	require.False(t, under(f.children(main, 1)[0], rest))

	// The process that the line was made for drives what it started before, as a client of ACP does.
	driver, ok := tr.LineOf(other, Roots{Parent: os.Getpid(), Init: -1, Main: other})
	require.True(t, ok)
	require.True(t, under(others, driver))
	tr.Guest(other, false)
	require.False(t, under(others, driver), "it is a person's")
}
