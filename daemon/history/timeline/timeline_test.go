package timeline

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/history/snapshot"
	"polis/fusefs/changed"
)

// host has the files of one agent in a directory.
type host struct {
	op      sync.Mutex // of the agent
	dir     string
	ignored []string
	ignores func(path string) bool // instead of ignored
	held    []string               // patterns
	locked  []string               // by another agent
	leases  []string
	changed int
	meet    func() // called while the agent is still, before the files are read
	rules   string
	set     *changed.Set // nil: nothing keeps what changes
	mounted []string     // in the sandbox
	git     *gitState    // nil: it is not known
}

func (h *host) Mounted(_ context.Context, _, id string) bool { return slices.Contains(h.mounted, id) }

func (h *host) Still(ctx context.Context, agent, _ string, act func(context.Context, Tree) error) error {
	if agent == "gone" {
		return api.Errorf(api.CodeAgentNotFound, "there is no agent %q", agent)
	}
	root, err := os.Open(h.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if h.meet != nil {
		h.meet()
	}
	tree := Tree{Root: root, Branch: "agent/" + agent, Commit: "c0ffee", Owner: snapshot.Owner{UID: -1, GID: -1},
		Ignored:  func(p string, _ bool) bool { return slices.Contains(h.ignored, p) },
		Declared: func(p string, _ bool) bool { return strings.HasPrefix(p, "out/") },
		Changed:  func(context.Context) error { h.changed++; return nil }}
	if h.ignores != nil {
		tree.Ignored = func(p string, _ bool) bool { return h.ignores(p) }
	}
	if tree.Held, err = NewHeld(h.held); err != nil {
		return err
	}
	if h.set != nil {
		h.keep(&tree, root)
	}
	if h.git != nil {
		tree.Git, tree.Commit = h.git.tree(h), h.git.refs["refs/heads/agent/a"]
	}
	return act(ctx, tree)
}

func (h *host) Hold(ctx context.Context, agent string, act func(context.Context, Still) error) error {
	h.op.Lock()
	defer h.op.Unlock()
	return act(ctx, func(ctx context.Context, reason string, act func(context.Context, Tree) error) error {
		return h.Still(ctx, agent, reason, act)
	})
}

func (h *host) Read(ctx context.Context, agent string, act func(context.Context, Tree) error) error {
	return h.Still(ctx, agent, "", act)
}

func (h *host) Writable(context.Context, string) error { return nil }

func (h *host) Lock(_ context.Context, _ string, paths []string) (func(), error) {
	for _, p := range paths {
		if slices.Contains(h.locked, p) {
			return nil, api.Errorf(api.CodeFileLocked, "%s is locked by other", p)
		}
	}
	h.leases = paths
	return func() { h.leases = nil }, nil
}

type world struct {
	testing.TB
	h      *host
	l      *Timeline
	limits Limits
	now    time.Time
	events []api.Event
}

func start(t *testing.T) *world {
	w := &world{TB: t, h: &host{dir: t.TempDir()}, now: time.Unix(1e9, 0), limits: Limits{AgentBytes: 1 << 20, StoreBytes: 10 << 20, TTL: time.Hour}}
	w.open(filepath.Join(t.TempDir(), "snapshots"))
	return w
}

func (w *world) open(dir string) {
	w.l = &Timeline{Dir: dir, Workspace: "ws", Host: w.h, Log: slog.New(slog.DiscardHandler), Limits: func() Limits { return w.limits }, Now: func() time.Time { w.now = w.now.Add(time.Second); return w.now },
		Publish: func(e api.Event) { w.events = append(w.events, e) }}
	w.Cleanup(func() { w.l.Close() })
}

// restart opens the snapshots as the next polisd does.
func (w *world) restart() {
	require.NoError(w, w.l.Close())
	w.open(w.l.Dir)
}

func (w *world) write(name, content string) {
	path := filepath.Join(w.h.dir, name)
	require.NoError(w, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(w, os.WriteFile(path, []byte(content), 0o644))
}

func (w *world) read(name string) string {
	b, err := os.ReadFile(filepath.Join(w.h.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return "-"
	}
	require.NoError(w, err)
	return string(b)
}

func (w *world) create(covers string) api.Snapshot {
	s, err := w.l.Create(w.Context(), "a", api.SnapshotRequest{Covers: covers})
	require.NoError(w, err)
	return s
}

func (w *world) objects() (n int) {
	_, n = w.l.objects.Used()
	return n
}

func TestASnapshotIsRestoredAndUndone(t *testing.T) {
	w := start(t)
	all, err := w.l.List(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, all)
	require.NoDirExists(t, w.l.Dir, "a workspace without snapshots has no store")

	w.write("a", "one")
	w.write("d/b", "two")
	w.write(".git", "gitdir: elsewhere")
	first := w.create("")
	require.Equal(t, []any{2, 1, int64(6), api.SnapshotByUser, "agent/a", "c0ffee", api.SnapshotFiles}, []any{first.Files, first.Dirs, first.Bytes, first.Why, first.Branch, first.Commit, first.Covers})
	require.Equal(t, first.Hash, w.create("").Hash)
	w.write("a", "ONE")
	w.write("c", "new")
	require.NoError(t, os.RemoveAll(filepath.Join(w.h.dir, "d")))
	second := w.create("")

	d, err := w.l.Diff(t.Context(), first.ID, "")
	require.NoError(t, err)
	var how []string
	for _, c := range d.Changes {
		how = append(how, c.How+" "+c.Path)
	}
	require.Equal(t, []string{"modified a", "added c", "removed d", "removed d/b"}, how)
	require.Equal(t, second.Hash, d.Hash)

	dry, err := w.l.Restore(t.Context(), first.ID, api.SnapshotRestoreRequest{DryRun: true})
	require.NoError(t, err)
	require.Equal(t, 4, dry.Changed)
	require.Empty(t, dry.Before)
	require.Equal(t, "ONE", w.read("a"))

	got, err := w.l.Restore(t.Context(), first.ID, api.SnapshotRestoreRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"c", "a", "d", "d/b"}, got.Paths)
	require.Equal(t, []string{"one", "two", "-", "gitdir: elsewhere"}, []string{w.read("a"), w.read("d/b"), w.read("c"), w.read(".git")})
	require.Equal(t, []string{"c", "a", "d/b"}, w.h.leases, "files that are removed take a lease, too")
	require.Equal(t, 1, w.h.changed)
	d, err = w.l.Diff(t.Context(), first.ID, "")
	require.NoError(t, err)
	require.Empty(t, d.Changes)
	require.Equal(t, first.Hash, d.Hash)

	before, ok, err := w.l.Find(t.Context(), got.Before)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, []string{second.Hash, api.SnapshotByRestore}, []string{before.Hash, before.Why})
	w.restart()
	_, err = w.l.Restore(t.Context(), got.Before, api.SnapshotRestoreRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"ONE", "-", "new"}, []string{w.read("a"), w.read("d/b"), w.read("c")})

	again, err := w.l.Restore(t.Context(), got.Before, api.SnapshotRestoreRequest{})
	require.NoError(t, err)
	require.Zero(t, again.Changed)
	require.Empty(t, again.Before, "nothing changed, so nothing is saved")

	var types []string
	for _, e := range w.events {
		types = append(types, e.Type)
	}
	require.Contains(t, types, api.EventSnapshotRestored)
}

func TestOnlySelectedPathsAreRestored(t *testing.T) {
	w := start(t)
	w.write("d/a", "old")
	w.write("b", "old")
	s := w.create("")
	w.write("d/a", "new")
	w.write("b", "new")
	got, err := w.l.Restore(t.Context(), s.ID, api.SnapshotRestoreRequest{Paths: []string{"d"}})
	require.NoError(t, err)
	require.Equal(t, []string{"d/a"}, got.Paths)
	require.Equal(t, []string{"old", "new"}, []string{w.read("d/a"), w.read("b")})
	for _, bad := range []string{"../x", "/etc", "", "d/", "a\x00"} {
		_, err := w.l.Restore(t.Context(), s.ID, api.SnapshotRestoreRequest{Paths: []string{bad}})
		require.Equal(t, api.CodeBadRequest, api.CodeOf(err), bad)
	}
	_, err = w.l.Restore(t.Context(), s.ID, api.SnapshotRestoreRequest{Paths: []string{"none"}})
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))
}

func TestWhatASnapshotCovers(t *testing.T) {
	w := start(t)
	w.write("src", "x")
	w.write("build", "ignored")
	w.write("out/a", "declared")
	w.h.ignored = []string{"build"}
	paths := func(covers string) (out []string) {
		files, err := w.l.Files(t.Context(), w.create(covers).ID)
		require.NoError(t, err)
		for _, f := range files {
			out = append(out, f.Path)
		}
		return out
	}
	require.Equal(t, []string{"out", "out/a", "src"}, paths(api.SnapshotFiles))
	require.Equal(t, []string{"build", "out", "out/a", "src"}, paths(api.SnapshotAll))
	require.Equal(t, []string{"out", "out/a"}, paths(api.SnapshotDeclared))
	_, err := w.l.Create(t.Context(), "a", api.SnapshotRequest{Covers: "some"})
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))

	// An ignored file is never removed, and one that is ignored only now is saved before it is replaced.
	s := w.create(api.SnapshotFiles)
	w.write("src", "later")
	w.h.ignored = []string{"build", "src"}
	got, err := w.l.Restore(t.Context(), s.ID, api.SnapshotRestoreRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"x", "ignored"}, []string{w.read("src"), w.read("build")})
	var text bytes.Buffer
	require.NoError(t, w.l.Content(t.Context(), got.Before, "src", &text))
	require.Equal(t, "later", text.String())
}

func TestALockedFileIsNotRestored(t *testing.T) {
	w := start(t)
	w.write("a", "old")
	w.write("b", "old")
	s := w.create("")
	w.write("a", "new")
	w.write("b", "new")
	w.h.locked = []string{"b"}
	_, err := w.l.Restore(t.Context(), s.ID, api.SnapshotRestoreRequest{})
	require.Equal(t, api.CodeFileLocked, api.CodeOf(err))
	require.Equal(t, []string{"new", "new"}, []string{w.read("a"), w.read("b")})
	all, err := w.l.List(t.Context(), "a")
	require.NoError(t, err)
	require.Len(t, all, 1, "nothing was changed, so nothing is saved")
}

// TestARestoreThatFailsChangesNothing: an object is damaged. The files that were restored before it
// are brought back.
func TestARestoreThatFailsChangesNothing(t *testing.T) {
	w := start(t)
	w.write("a", "old a")
	w.write("b", "old b")
	s := w.create("")
	w.write("a", "new a")
	w.write("b", "new b")
	files, err := w.l.Files(t.Context(), s.ID)
	require.NoError(t, err)
	object := filepath.Join(w.l.Dir, "objects", files[1].Hash[:2], files[1].Hash[2:])
	require.NoError(t, os.Chmod(object, 0o600))
	require.NoError(t, os.WriteFile(object, []byte("evil!"), 0o600))

	v, err := w.l.Verify(t.Context(), s.ID)
	require.NoError(t, err)
	require.False(t, v.Intact)
	require.Equal(t, []string{"b: " + files[1].Hash + ": the stored content does not match its hash"}, v.Damaged)
	_, err = w.l.Restore(t.Context(), s.ID, api.SnapshotRestoreRequest{})
	require.Equal(t, api.CodeSnapshotCorrupt, api.CodeOf(err))
	require.Equal(t, []string{"new a", "new b"}, []string{w.read("a"), w.read("b")})
	require.Empty(t, w.h.leases)
	require.Error(t, w.l.Content(t.Context(), s.ID, "b", &bytes.Buffer{}))

	require.NoError(t, os.Remove(object))
	_, err = w.l.Restore(t.Context(), s.ID, api.SnapshotRestoreRequest{})
	require.Equal(t, api.CodeSnapshotCorrupt, api.CodeOf(err))
	require.Equal(t, []string{"new a", "new b"}, []string{w.read("a"), w.read("b")})
	_, err = w.l.Restore(t.Context(), s.ID, api.SnapshotRestoreRequest{Paths: []string{"a"}})
	require.NoError(t, err, "the rest can be restored")
}

func TestAnInterruptedRestoreIsCompleted(t *testing.T) {
	w := start(t)
	w.write("a", "old")
	s := w.create("")
	w.write("a", "new")
	// As a polisd leaves it that died after the note, with some files restored.
	require.NoError(t, os.MkdirAll(w.l.intents(), 0o700))
	note := func(agent, id string) {
		require.NoError(t, os.WriteFile(w.l.intentFile(agent), []byte(`{"agent":"`+agent+`","snapshot":"`+id+`"}`), 0o600))
	}
	note("a", s.ID)
	note("gone", s.ID)
	require.NoError(t, os.WriteFile(filepath.Join(w.l.intents(), ".x.json.123"), []byte(`{`), 0o600))
	w.restart()
	exists := func(agent string) bool { return agent == "a" }
	done, err := w.l.Resume(t.Context(), exists)
	require.NoError(t, err)
	require.Len(t, done, 1)
	require.Equal(t, "old", w.read("a"))
	n := w.h.changed
	note("a", s.ID) // polisd died after the last file
	_, err = w.l.Resume(t.Context(), exists)
	require.NoError(t, err)
	require.Greater(t, w.h.changed, n, "the view has not been notified")
	left, err := os.ReadDir(w.l.intents())
	require.NoError(t, err)
	require.Empty(t, left)

	note("a", "s0000000000")
	_, err = w.l.Resume(t.Context(), exists)
	require.Error(t, err, "the snapshot was removed")
	done, err = w.l.Resume(t.Context(), exists)
	require.NoError(t, err, "and that is reported once")
	require.Empty(t, done)
}

func TestContentsAreCollected(t *testing.T) {
	w := start(t)
	w.write("a", "kept")
	w.write("b", "unneeded")
	first := w.create("")
	w.write("b", "later")
	second := w.create("")
	n := w.objects()
	require.NoError(t, w.l.Collect(t.Context()))
	require.Equal(t, n, w.objects())
	_, err := w.l.Remove(t.Context(), first.ID)
	require.NoError(t, err)
	require.NoError(t, w.l.Collect(t.Context()))
	require.Equal(t, n-2, w.objects(), "a content and a list of files")
	v, err := w.l.Verify(t.Context(), second.ID)
	require.NoError(t, err)
	require.True(t, v.Intact)
	_, err = w.l.Remove(t.Context(), first.ID)
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))

	// What no user made goes with time.
	w.write("b", "newest")
	got, err := w.l.Restore(t.Context(), second.ID, api.SnapshotRestoreRequest{})
	require.NoError(t, err)
	require.NoError(t, w.l.Collect(t.Context()))
	_, there, err := w.l.Find(t.Context(), got.Before)
	require.NoError(t, err)
	require.True(t, there)
	w.now = w.now.Add(2 * time.Hour)
	require.NoError(t, w.l.Collect(t.Context()))
	_, there, err = w.l.Find(t.Context(), got.Before)
	require.NoError(t, err)
	require.False(t, there)
	_, there, err = w.l.Find(t.Context(), second.ID)
	require.NoError(t, err)
	require.True(t, there, "a user made it")
}

// TestNothingIsCollectedWhileARecordCannotBeRead: its contents could be the only copy of something.
func TestNothingIsCollectedWhileARecordCannotBeRead(t *testing.T) {
	w := start(t)
	w.write("a", "precious")
	s := w.create("")
	w.write("a", "other")
	w.create("")
	n := w.objects()
	require.NoError(t, os.WriteFile(w.l.recordFile(s.ID), []byte("{"), 0o600))
	for range 2 { // the second time the damaged one has another name
		w.restart()
		all, err := w.l.List(t.Context(), "")
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, api.CodeSnapshotCorrupt, api.CodeOf(w.l.Collect(t.Context())))
		require.Equal(t, n, w.objects())
	}
}

func TestTheLimitsAreKept(t *testing.T) {
	w := start(t)
	w.write("big", strings.Repeat("x", 2<<20))
	_, err := w.l.Create(t.Context(), "a", api.SnapshotRequest{})
	require.Equal(t, api.CodeTooLarge, api.CodeOf(err))
	w.limits.AgentBytes = 3 << 20
	w.limits.StoreBytes = 1 << 20
	_, err = w.l.Create(t.Context(), "a", api.SnapshotRequest{})
	require.Equal(t, api.CodeQuota, api.CodeOf(err))
	require.Zero(t, w.objects())
	w.limits.StoreBytes = 4 << 20
	w.create("")
	w.limits.AgentBytes = 2 << 20
	_, err = w.l.Create(t.Context(), "a", api.SnapshotRequest{})
	require.Equal(t, api.CodeQuota, api.CodeOf(err))
	_, err = w.l.Create(t.Context(), "a", api.SnapshotRequest{Note: strings.Repeat("x", 501)})
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
	_, err = w.l.Create(t.Context(), "gone", api.SnapshotRequest{})
	require.Equal(t, api.CodeAgentNotFound, api.CodeOf(err))
}

// TestOnlyAFileThatStaysStillIsSaved, and what is left out is counted.
func TestOnlyAFileThatStaysStillIsSaved(t *testing.T) {
	w := start(t)
	require.NoError(t, unix.Mkfifo(filepath.Join(w.h.dir, "pipe"), 0o600))
	w.write("a", "x")
	s := w.create("")
	require.Equal(t, []int{1, 1}, []int{s.Files, s.LeftOut})
}
