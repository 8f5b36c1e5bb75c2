package opens

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api/wire"
	"polis/fusefs"
)

func recorder(t testing.TB, deny bool) *Recorder {
	r := &Recorder{Life: 7, Deny: deny, Task: func() string { return "t1" }, Now: time.Now}
	r.Open()
	t.Cleanup(func() { require.NoError(t, r.Close(context.Background())) })
	return r
}

func open(r *Recorder, path string) syscall.Errno {
	if e := r.Reserve(); e != 0 {
		return e
	}
	r.Record(fusefs.Caller{Pid: uint32(os.Getpid())}, fusefs.OpOpenRead, false, fusefs.Target{Path: path})
	return 0
}

func TestARecordNamesProcessTaskAndPath(t *testing.T) {
	r := recorder(t, false)
	require.Zero(t, open(r, "a/b"))
	require.Zero(t, open(r, "a/b"))
	require.Zero(t, open(r, "bad\xff"))
	require.Zero(t, r.Reserve())
	r.Record(fusefs.Caller{}, fusefs.OpRename, true, fusefs.Target{Path: "old", Dir: true, Tree: true}, fusefs.Target{Path: "new", Dir: true, Tree: true})
	b := r.Fetch(t.Context(), 0, 0, 0)
	require.Len(t, b.List, 3)
	exe, err := os.Executable()
	require.NoError(t, err)
	require.Equal(t, exe, b.List[0].Program)
	require.Equal(t, uint32(os.Getpid()), b.List[0].PID)
	require.Contains(t, b.List[0].Command, "-test.")
	require.Equal(t, "t1", b.List[0].Task)
	require.Equal(t, 2, b.List[0].Count)
	require.NotNil(t, b.List[0].Last)
	require.Equal(t, `"bad\xff"`, b.List[1].Path)
	require.Equal(t, "new", b.List[2].To)
	require.True(t, b.List[2].Write && b.List[2].Dir && b.List[2].Tree)
}

// TestPropertyEveryRecordIsHandedOverOnce, however often polisd dies between a fetch and its
// confirmation: what was confirmed never comes again, everything else does, in order.
func TestPropertyEveryRecordIsHandedOverOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &Recorder{Life: 7, Task: func() string { return "" }, Now: time.Now}
		r.Open()
		defer func() { require.NoError(t, r.Close(context.Background())) }()
		n, next := 0, uint64(0)
		var stored []string
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "open") {
				for range rapid.IntRange(1, 700).Draw(t, "many") {
					require.Zero(t, open(r, fmt.Sprint(n)))
					n++
				}
				continue
			}
			ctx, cancel := context.WithCancel(context.Background())
			cancel() // nobody waits
			b := r.Fetch(ctx, 7, next, 0)
			if rapid.Bool().Draw(t, "stored") {
				for _, o := range b.List {
					stored = append(stored, o.Path)
				}
				next = b.Next
			}
		}
		for {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			b := r.Fetch(ctx, 7, next, 0)
			if len(b.List) == 0 {
				break
			}
			for _, o := range b.List {
				stored = append(stored, o.Path)
			}
			next = b.Next
		}
		require.Len(t, stored, n)
		for i, p := range stored {
			require.Equal(t, fmt.Sprint(i), p)
		}
		require.Zero(t, r.bytes)
		require.Empty(t, r.equal)
	})
}

func TestAFullListDropsAndCountsOrRefuses(t *testing.T) {
	drop, deny := recorder(t, false), recorder(t, true)
	for i := range maxEntries + 10 {
		require.Zero(t, open(drop, fmt.Sprint(i)))
		if e := open(deny, fmt.Sprint(i)); i < maxEntries {
			require.Zero(t, e)
		} else {
			require.Equal(t, syscall.EIO, e)
		}
	}
	require.Equal(t, uint64(10), drop.Fetch(t.Context(), 0, 0, 0).Dropped)
	require.True(t, deny.Refused())
	require.False(t, deny.Refused(), "once a second")
	b := deny.Fetch(t.Context(), 0, 0, 0)
	deny.Fetch(t.Context(), b.Life, b.Next, 0)
	require.Zero(t, open(deny, "after"))
}

// TestACommandLineThatCannotBeReadDelaysAndBlocksNothing: a process can put a mapping of a file of the view
// where its command line is, and the view serves it only when it has answered.
func TestACommandLineThatCannotBeReadDelaysAndBlocksNothing(t *testing.T) {
	r := recorder(t, false)
	close(r.procs.ask)
	<-r.procs.done
	r.procs.ask = make(chan lookup) // nobody answers
	defer r.procs.open()
	require.Zero(t, open(r, "a"))
	b := r.Fetch(t.Context(), 0, 0, 0)
	require.Len(t, b.List, 1)
	require.Empty(t, b.List[0].Command)
	require.NotEmpty(t, b.List[0].Program)
}

func TestARecordOfAnotherTaskIsAnotherRecord(t *testing.T) {
	r := recorder(t, false)
	require.Zero(t, open(r, "a"))
	r.Task = func() string { return "t2" }
	require.Zero(t, open(r, "a"))
	b := r.Fetch(t.Context(), 0, 0, 0)
	require.Equal(t, []string{"t1", "t2"}, []string{b.List[0].Task, b.List[1].Task})
}

// full is an auditor without room.
type full struct{ fusefs.Auditor }

func (full) Reserve() syscall.Errno { return syscall.EIO }

func TestATeeRecordsInAllOrInNone(t *testing.T) {
	require.Nil(t, Tee())
	a, b := recorder(t, false), recorder(t, false)
	both := Tee(a, b)
	require.Zero(t, both.Reserve())
	both.Record(fusefs.Caller{}, fusefs.OpCreate, true, fusefs.Target{Path: "x"})
	require.Zero(t, both.Reserve())
	both.Release()
	require.Equal(t, syscall.EIO, Tee(a, b, full{}).Reserve())
	for _, r := range []*Recorder{a, b} {
		require.Len(t, r.Fetch(t.Context(), 0, 0, 0).List, 1)
		require.Zero(t, r.reserved)
	}
}

func TestAFetchWaitsForRecords(t *testing.T) {
	r := recorder(t, false)
	got := make(chan wire.Opens)
	go func() { got <- r.Fetch(t.Context(), 0, 0, 10*time.Millisecond) }()
	time.Sleep(20 * time.Millisecond)
	require.Zero(t, open(r, "a"))
	require.Len(t, (<-got).List, 1)
}

func BenchmarkRecord(b *testing.B) {
	r := recorder(b, false)
	for i := 0; b.Loop(); i++ {
		open(r, "src/file")
		if i%MaxBatch == 0 {
			x := r.next()
			r.confirm(x.Life, x.Next)
		}
	}
}
