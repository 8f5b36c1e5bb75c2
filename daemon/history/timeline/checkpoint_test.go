package timeline

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/history/cas"
	"polis/daemon/history/snapshot"
	"polis/fusefs/changed"
)

// keep gives a tree what the view keeps.
func (h *host) keep(tree *Tree, root *os.File) {
	tree.Written, tree.Rules = root, h.rules
	tree.Changes = func(_ context.Context, since string) (Changes, error) {
		c := h.set.Take(since)
		out := Changes{Cut: c.ID, Whole: c.Whole}
		for _, p := range c.Paths {
			if p.Tree {
				out.Trees = append(out.Trees, p.Name)
			} else {
				out.Paths = append(out.Paths, p.Name)
			}
		}
		return out, nil
	}
	tree.Note = func(_ context.Context, paths []string) error {
		for _, p := range paths {
			h.set.Add(p, true)
		}
		return nil
	}
	tree.Index = func() (Index, error) {
		f, err := os.Open(filepath.Join(h.dir, ".index"))
		if err != nil {
			return Index{}, err
		}
		fi, err := f.Stat()
		return Index{File: f, Stamp: fmt.Sprint(fi.ModTime().UnixNano())}, err
	}
}

// put writes a file as an agent does: through its view.
func (w *world) put(name, content string) {
	w.h.set.Add(name, false)
	if dir := filepath.Dir(name); dir != "." {
		w.h.set.Add(dir, true)
	}
	w.write(name, content)
}

func (w *world) checkpoint() (api.Snapshot, bool) {
	s, made, err := w.l.Checkpoint(w.Context(), "a", Mark{Why: api.SnapshotByTime})
	require.NoError(w, err)
	return s, made
}

func TestACheckpointReadsWhatChanged(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.put("a", "one")
	w.put("d/b", "two")
	first, made := w.checkpoint()
	require.True(t, made)
	require.NotEmpty(t, first.Whole)
	_, made = w.checkpoint()
	require.False(t, made, "nothing has changed")

	// What the view does not see is not read.
	w.write("behind", "the view")
	w.put("a", "ONE")
	second, made := w.checkpoint()
	require.True(t, made)
	require.Equal(t, []any{"", 1, []string{"a"}}, []any{second.Whole, second.ChangedCount, second.Changed})
	require.Equal(t, first.Manifest, second.Manifest, "the list of files is not stored again")
	require.Empty(t, second.Hash)
	d, err := w.l.Describe(t.Context(), second.ID)
	require.NoError(t, err)
	require.NotEmpty(t, d.Hash)
	require.Equal(t, 2, d.Files)

	w.restart() // of polisd: the set is the shim's
	w.h.set.Add("d", true)
	require.NoError(t, os.RemoveAll(filepath.Join(w.h.dir, "d")))
	third, made := w.checkpoint()
	require.True(t, made)
	require.Empty(t, third.Whole)

	w.h.set = changed.New() // another shim
	fourth, _ := w.checkpoint()
	require.NotEmpty(t, fourth.Whole)
	require.Equal(t, 2, fourth.Files, "now the file behind the view is there")

	got, err := w.l.Restore(t.Context(), second.ID, api.SnapshotRestoreRequest{Paths: []string{"a", "d"}})
	require.NoError(t, err)
	require.Equal(t, []string{"d", "d/b"}, got.Paths)
	require.Equal(t, []string{"ONE", "two"}, []string{w.read("a"), w.read("d/b")})
	after, made := w.checkpoint()
	require.True(t, made)
	require.Empty(t, after.Whole, "the restore has noted what it changed")
	_, err = w.l.Restore(t.Context(), got.Before, api.SnapshotRestoreRequest{})
	require.NoError(t, err)
	require.Equal(t, "-", w.read("d/b"))
	require.NoError(t, w.l.Collect(t.Context()))
	for _, s := range []api.Snapshot{first, second, third, fourth, after} {
		v, err := w.l.Verify(t.Context(), s.ID)
		require.NoError(t, err)
		require.True(t, v.Intact, v.Damaged)
	}
}

// An agent can make its index as large as it likes, with holes at no cost.
func TestAHugeIndexIsNotRead(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.put("a", "one")
	index := filepath.Join(w.h.dir, ".index")
	require.NoError(t, os.WriteFile(index, []byte("DIRC"), 0o600))
	w.checkpoint()
	last, _ := w.l.last("a")
	require.NotEmpty(t, last.Index)
	require.NoError(t, os.Truncate(index, maxIndex+1))
	w.put("a", "two")
	_, made := w.checkpoint()
	require.True(t, made)
	last, _ = w.l.last("a")
	require.Empty(t, last.Index)
}

func TestWhenTheWholeTreeIsRead(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"the set is lost":            func(w *world) { w.h.set.Lose("the set is lost") },
		"the rules of what git":      func(w *world) { w.h.rules = "others" },
		"the rules of what git igno": func(w *world) { w.put(".gitignore", "x") },
		"file with several names":    func(w *world) { w.put("linked", "later") },
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			w.h.set = changed.New()
			w.put("a", "one")
			w.put("linked", "x")
			require.NoError(t, os.Link(filepath.Join(w.h.dir, "linked"), filepath.Join(w.h.dir, "other")))
			w.checkpoint()
			w.put("a", "two")
			change(w)
			s, made := w.checkpoint()
			require.True(t, made)
			require.Contains(t, s.Whole, name)
		})
	}
}

func TestAFileThatIsOpenIsReadUntilItIsReleased(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.put("log", "one")
	w.put("mapped", "one")
	f, err := os.OpenFile(filepath.Join(w.h.dir, "log"), os.O_RDWR, 0)
	require.NoError(t, err)
	m, err := os.OpenFile(filepath.Join(w.h.dir, "mapped"), os.O_RDWR, 0)
	require.NoError(t, err)
	mem, err := unix.Mmap(int(m.Fd()), 0, 3, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	require.NoError(t, m.Close())
	w.checkpoint()
	_, err = f.WriteAt([]byte("two"), 0) // the view sees neither
	require.NoError(t, err)
	copy(mem, "two")
	s, made := w.checkpoint()
	require.True(t, made)
	require.Equal(t, []string{"log", "mapped"}, s.Changed)
	copy(mem, "end")
	require.NoError(t, f.Close())
	require.NoError(t, unix.Munmap(mem))
	s, made = w.checkpoint()
	require.True(t, made)
	require.Equal(t, []string{"mapped"}, s.Changed)
	_, made = w.checkpoint()
	require.False(t, made)
}

func TestAPersonNamesACheckpoint(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	_, err := w.l.At(t.Context(), "a", "")
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))
	w.put("a", "1")
	one, _, err := w.l.Checkpoint(t.Context(), "a", Mark{Why: api.SnapshotByTask, Task: 3})
	require.NoError(t, err)
	w.now = w.now.Add(10 * time.Minute)
	w.put("a", "2")
	two, _ := w.checkpoint()
	for to, want := range map[string]string{"": two.ID, "5m": one.ID, "before task 3": one.ID, "before task a.3": one.ID, one.ID: one.ID, "0s": two.ID} {
		s, err := w.l.At(t.Context(), "a", to)
		require.NoError(t, err, to)
		require.Equal(t, want, s.ID, to)
	}
	for _, to := range []string{"before task 4", "48h", "s0", "yesterday"} {
		_, err := w.l.At(t.Context(), "a", to)
		require.Equal(t, api.CodeNotFound, api.CodeOf(err), to)
	}
}

// TestALargeTreeIsReadWhileTheAgentWorks: only what changed meanwhile is read while it is still.
func TestALargeTreeIsReadWhileTheAgentWorks(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.limits = Limits{AgentBytes: 1 << 30, StoreBytes: 1 << 30, Keep: 100}
	w.write("large", "")
	require.NoError(t, os.Truncate(filepath.Join(w.h.dir, "large"), fewBytes+1))
	w.write("d1/1", "first")
	_, _, err := w.l.Checkpoint(t.Context(), "a", Mark{Why: api.SnapshotByTask, Task: 1, Quick: true})
	require.ErrorIs(t, err, ErrLarge)
	n := 0
	w.h.meet = func() { // before each reading
		n++
		w.h.set.Add("d1/1", false)
		w.write("d1/1", fmt.Sprint("changed ", n))
	}
	s, made := w.checkpoint()
	require.True(t, made)
	require.Equal(t, 3, n)
	require.Equal(t, []string{"d1/1"}, s.Changed)
	w.h.meet = nil
	var text bytes.Buffer
	require.NoError(t, w.l.Content(t.Context(), s.ID, "d1/1", &text))
	require.Equal(t, "changed 3", text.String())
	all, err := w.l.List(t.Context(), "a")
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Len(t, w.l.records, 1, "the reading ahead is no state")
	v, err := w.l.Describe(t.Context(), s.ID)
	require.NoError(t, err)
	require.Equal(t, 2, v.Files)
}

func TestMomentsAreCompared(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.put("a", "one")
	first, _ := w.checkpoint()
	w.put("a", "two")
	w.put("b", "new")
	_, _, err := w.l.Checkpoint(t.Context(), "a", BeforeTask(api.Task{ID: "a.3"}))
	require.NoError(t, err)
	w.put("b", "other")
	how := func(from, to string) (out []string) {
		d, err := w.l.DiffAt(t.Context(), "a", from, to)
		require.NoError(t, err)
		for _, c := range d.Changes {
			out = append(out, c.How+" "+c.Path)
		}
		return out
	}
	require.Equal(t, []string{"modified a", "added b"}, how(first.ID, "before task 3"))
	require.Equal(t, []string{"modified b"}, how("before task", ""))
	require.Equal(t, []string{"modified b"}, how("", ""), "the last checkpoint")
	require.Equal(t, []string{"modified a", "removed b"}, how("before task 3", first.ID))
	_, err = w.l.DiffAt(t.Context(), "a", first.ID, "before task 9")
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))
}

func TestOldCheckpointsMakeRoom(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.limits.Keep = 3
	w.put("a", "0")
	user := w.create("")
	for i := range 8 {
		w.put("a", fmt.Sprint(i))
		w.checkpoint()
	}
	all, err := w.l.List(t.Context(), "a")
	require.NoError(t, err)
	require.Len(t, all, 4)
	require.Equal(t, user.ID, all[0].ID, "a user's stays")
	require.NoError(t, w.l.Collect(t.Context()))
	w.put("a", "only here")
	back, err := w.l.Restore(t.Context(), all[1].ID, api.SnapshotRestoreRequest{})
	require.NoError(t, err)
	require.Equal(t, "5", w.read("a"))
	for i := range 8 {
		w.put("a", fmt.Sprint(i))
		w.checkpoint()
	}
	_, err = w.l.Restore(t.Context(), back.Before, api.SnapshotRestoreRequest{})
	require.NoError(t, err)
	require.Equal(t, "only here", w.read("a"), "what a restore replaced stays")
}

// TestWhatIsKeptIsNotRemovedBecauseOfItsAgeOrNumber also after a restart of polisd.
func TestWhatIsKeptIsNotRemovedBecauseOfItsAgeOrNumber(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.limits.Keep = 2
	w.put("a", "kept")
	first, _ := w.checkpoint()
	s, err := w.l.Keep(t.Context(), first.ID)
	require.NoError(t, err)
	store, err := cas.OpenObjects(s.Store)
	require.NoError(t, err)
	defer store.Close()
	m, err := snapshot.Load(store, s.Manifest, s.Delta)
	require.NoError(t, err)
	require.Equal(t, cas.Sum([]byte("kept")), m.Find("a").Hash)
	for i := range 5 {
		w.put("a", fmt.Sprint(i))
		w.checkpoint()
	}
	w.now = w.now.Add(2 * w.limits.TTL)
	require.NoError(t, w.l.Collect(t.Context()))
	again, err := w.l.Describe(t.Context(), first.ID)
	require.NoError(t, err)
	require.True(t, again.Kept)
	v, err := w.l.Verify(t.Context(), first.ID)
	require.NoError(t, err)
	require.True(t, v.Intact)
	_, err = w.l.Keep(t.Context(), "s0000000000")
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))
	_, err = w.l.Remove(t.Context(), first.ID)
	require.NoError(t, err)
}

// TestWhatIsMountedInASandboxIsNotRemoved because of its age or number while it is mounted, or is being mounted, also after
// a restart; afterwards it is.
func TestWhatIsMountedInASandboxIsNotRemoved(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.limits.Keep = 3
	w.put("a", "used")
	used, _ := w.checkpoint()
	w.put("a", "tried")
	tried, _ := w.checkpoint()
	more := func() {
		for range 5 {
			w.put("a", w.now.String())
			w.checkpoint()
		}
		w.now = w.now.Add(2 * w.limits.TTL)
		require.NoError(t, w.l.Collect(t.Context()))
	}
	there := func(id string) bool {
		_, ok, err := w.l.Find(t.Context(), id)
		require.NoError(t, err)
		return ok
	}
	require.NoError(t, w.l.Use(t.Context(), used.ID, func(s Stored) error {
		require.NotEmpty(t, s.Manifest)
		more() // it is not mounted yet
		w.h.mounted = []string{used.ID}
		return nil
	}))
	require.False(t, there(tried.ID), "others are removed meanwhile")
	w.restart()
	more()
	v, err := w.l.Verify(t.Context(), used.ID)
	require.NoError(t, err)
	require.True(t, v.Intact)
	d, err := w.l.Describe(t.Context(), used.ID)
	require.NoError(t, err)
	require.False(t, d.Kept, "the agent cannot keep any permanently")
	w.h.mounted = nil
	more()
	require.False(t, there(used.ID))
	require.Equal(t, api.CodeNotFound, api.CodeOf(w.l.Use(t.Context(), used.ID, func(Stored) error { panic("it is gone") })))
}
