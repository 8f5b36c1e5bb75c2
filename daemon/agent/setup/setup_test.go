package setup

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/internal/need"
)

const (
	treeA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	treeB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	treeC = "cccccccccccccccccccccccccccccccccccccccc"
)

// tree lists the files of trees: B has other inputs than A, C none.
func tree(_ context.Context, tree string, each func(path, id string) error) error {
	files := map[string][][2]string{
		treeA: {{"main.go", "1"}, {"package-lock.json", "2"}, {"web/package-lock.json", "3"}},
		treeB: {{"main.go", "9"}, {"package-lock.json", "4"}, {"web/package-lock.json", "3"}},
		treeC: {{"main.go", "1"}},
	}[tree]
	if files == nil {
		return errors.New("no such tree")
	}
	for _, f := range files {
		if err := each(f[0], f[1]); err != nil {
			return err
		}
	}
	return nil
}

func TestAKeyChangesWithTheCommandTheInputsAndTheEnvironment(t *testing.T) {
	in := Inputs{Run: "npm ci", Patterns: []string{"package-lock.json"}, Environment: []string{"/project"}}
	key := func(in Inputs, of string) string {
		k, err := in.Key(t.Context(), of, tree)
		require.NoError(t, err)
		return k
	}
	first := key(in, treeA)
	require.Len(t, first, 64)
	require.Equal(t, first, key(in, treeA))
	require.NotEqual(t, first, key(in, treeB))
	require.Empty(t, key(in, treeC), "no input, no setup")
	seen := map[string]bool{first: true}
	for _, other := range []Inputs{
		{Run: "npm install", Patterns: in.Patterns, Environment: in.Environment},
		{Run: in.Run, Patterns: []string{"/package-lock.json"}, Environment: in.Environment},
		{Run: in.Run, Patterns: []string{"web/"}, Environment: in.Environment},
		{Run: in.Run, Patterns: in.Patterns, Environment: []string{"/elsewhere"}},
		{Run: in.Run, Patterns: in.Patterns, Environment: []string{"/pro", "ject"}},
	} {
		k := key(other, treeA)
		require.NotEmpty(t, k)
		require.False(t, seen[k], "%+v", other)
		seen[k] = true
	}
	_, err := in.Key(t.Context(), "missing", tree)
	require.Error(t, err)
}

// mine cleans for the user of the test.
var mine = cleaning{uid: os.Getuid(), gid: os.Getgid(), room: 1 << 20}

// made makes the directory of a run with what a command left.
func made(t *testing.T, s *Store, key string, files map[string]string) (id, dir string) {
	t.Helper()
	id, dir, err := s.begin(key)
	require.NoError(t, err)
	for name, text := range files {
		path := filepath.Join(dir, "upper", name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return id, dir
}

// result stores a result.
func result(t *testing.T, s *Store, key string, at time.Time) Record {
	t.Helper()
	id, dir := made(t, s, key, map[string]string{"deps/a": key[:8] + at.String()})
	got, err := collect(t.Context(), dir, []string{"deps/"}, mine)
	require.NoError(t, err)
	r := Record{Version: recordVersion, ID: id, Key: key, Made: at, Compared: at, Sum: got.sum, Bytes: got.bytes, Files: got.files, Outputs: got.outputs}
	require.NoError(t, s.finish(t.Context(), r))
	return r
}

func newStore(t *testing.T) *Store {
	return NewStore(filepath.Join(t.TempDir(), "setups"), os.Getuid(), os.Getgid(), slog.New(slog.DiscardHandler))
}

var (
	keyA = strings.Repeat("a", 64)
	keyB = strings.Repeat("b", 64)
)

func TestOnlyTheOutputsAreCollected(t *testing.T) {
	s := newStore(t)
	_, dir := made(t, s, keyA, map[string]string{"deps/a/index.js": "x", "sub/cache/y": "y", "sub/tracked": "changed", "new.txt": "untracked"})
	at := func(name string) string { return filepath.Join(dir, "upper", name) }
	require.NoError(t, os.Symlink("/etc/passwd", at("deps/link")))
	require.NoError(t, os.Link(at("deps/a/index.js"), at("deps/second")))
	require.NoError(t, unix.Mkfifo(at("deps/pipe"), 0o600))
	require.NoError(t, os.Chmod(at("deps/a/index.js"), 0o755|os.ModeSetuid))
	got, err := collect(t.Context(), dir, []string{"deps/", "sub/cache/"}, mine)
	require.NoError(t, err)
	require.Equal(t, 3, got.dropped, "a tracked file, an untracked one and a pipe: %v", got.drops)
	require.ElementsMatch(t, []string{"tracked", "new.txt"}, got.drops)
	require.FileExists(t, filepath.Join(dir, "tree/sub/cache/y"))
	require.NoFileExists(t, filepath.Join(dir, "tree/sub/tracked"))
	require.NoFileExists(t, filepath.Join(dir, "tree/deps/pipe"))
	fi, err := os.Lstat(filepath.Join(dir, "tree/deps/second"))
	require.NoError(t, err)
	require.Zero(t, fi.Mode()&os.ModeSetuid)
	to, err := os.Readlink(filepath.Join(dir, "tree/deps/link"))
	require.NoError(t, err)
	require.Equal(t, "/etc/passwd", to, "a link is kept, and never followed")

	for _, name := range []string{"../upper/x", "/etc/passwd", "."} {
		_, err := collect(t.Context(), dir, []string{name}, mine)
		require.Error(t, err, name)
	}
}

func TestTheAttributesOfAnOverlayAreDropped(t *testing.T) {
	need.Root(t)
	s := newStore(t)
	_, dir := made(t, s, keyA, map[string]string{"deps/a": "x"})
	deps := filepath.Join(dir, "upper/deps")
	require.NoError(t, unix.Setxattr(deps, "trusted.overlay.opaque", []byte("y"), 0))
	require.NoError(t, unix.Mknod(filepath.Join(deps, "whiteout"), unix.S_IFCHR, 0))
	_, err := collect(t.Context(), dir, []string{"deps/"}, cleaning{uid: 65534, gid: 65534})
	require.NoError(t, err)
	deps = filepath.Join(dir, "tree/deps")
	_, err = unix.Getxattr(deps, "trusted.overlay.opaque", nil)
	require.ErrorIs(t, err, unix.ENODATA)
	require.NoFileExists(t, filepath.Join(deps, "whiteout"))
	var st unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(deps, "a"), &st))
	require.Equal(t, uint32(65534), st.Uid)
}

func TestADirectoryTooDeepIsRefused(t *testing.T) {
	s := newStore(t)
	_, dir := made(t, s, keyA, map[string]string{"deps/" + strings.Repeat("d/", maxDepth+1) + "f": "x"})
	_, err := collect(t.Context(), dir, []string{"deps/"}, mine)
	require.ErrorContains(t, err, "deep")
}

func TestTheLatestResultIsCurrent(t *testing.T) {
	s := newStore(t)
	none, err := s.Current(keyA)
	require.NoError(t, err)
	require.Nil(t, none)
	begin := time.Now().UTC().Add(-time.Hour).Truncate(time.Second)
	first, second := result(t, s, keyA, begin), result(t, s, keyA, begin.Add(time.Minute))
	require.NotEqual(t, first.ID, second.ID)
	got, err := s.Current(keyA)
	require.NoError(t, err)
	require.Equal(t, second.ID, got.ID)
	for _, name := range []string{"../x", first.ID + "/..", ""} {
		_, err := s.Tree(name)
		require.Error(t, err, name)
	}

	// Used ones, the current one and the latest others stay.
	other := result(t, s, keyB, begin.Add(-time.Minute))
	used := func() (map[string][]string, error) { return map[string][]string{first.ID: {"ann"}}, nil }
	removed, err := s.Collect(t.Context(), keyA, 1, used)
	require.NoError(t, err)
	require.Empty(t, removed)
	removed, err = s.Collect(t.Context(), keyA, 0, used)
	require.NoError(t, err)
	require.Equal(t, []string{other.ID}, removed)
	removed, err = s.Collect(t.Context(), keyA, 0, func() (map[string][]string, error) { return nil, nil })
	require.NoError(t, err)
	require.Equal(t, []string{first.ID}, removed)
	_, err = s.Collect(t.Context(), keyA, 0, func() (map[string][]string, error) { return nil, errors.New("not read") })
	require.Error(t, err, "nothing is removed if it is not known what is used")
}

func TestACollectedResultIsNotClaimed(t *testing.T) {
	s := newStore(t)
	r := result(t, s, keyA, time.Now().UTC())
	var group sync.WaitGroup
	claimed := ""
	found, err := s.Claim(t.Context(), keyA, func(c Record) error {
		group.Go(func() { // it waits until the claim is stored
			removed, err := s.Collect(context.WithoutCancel(t.Context()), "", 0, func() (map[string][]string, error) {
				return map[string][]string{claimed: {"ann"}}, nil
			})
			if err != nil || len(removed) > 0 {
				t.Errorf("removed %v: %v", removed, err)
			}
		})
		claimed = c.ID
		return nil
	})
	require.NoError(t, err)
	require.True(t, found)
	group.Wait()
	require.Equal(t, r.ID, claimed)
	require.DirExists(t, filepath.Join(s.dir, r.ID))
}

func TestWhatACrashLeftIsSwept(t *testing.T) {
	s := newStore(t)
	r := result(t, s, keyA, time.Now().UTC())
	_, dir := made(t, s, keyA, map[string]string{"deps/a": "x"})
	require.NoError(t, os.Mkdir(s.path(strings.Repeat("c", 40)+"-1")+gone, 0o700))
	unmounted := ""
	require.Error(t, s.Sweep(t.Context(), func(string) error { return errors.New("busy") }))
	require.DirExists(t, dir, "nothing is deleted below a mount")
	require.NoError(t, s.Sweep(t.Context(), func(d string) error { unmounted = d; return nil }))
	require.Equal(t, dir, unmounted)
	entries, err := os.ReadDir(s.dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, r.ID, entries[0].Name())
}

func TestDamageIsFound(t *testing.T) {
	for name, damage := range map[string]func(string) error{
		"content": func(dir string) error { return os.WriteFile(filepath.Join(dir, "deps/a"), []byte("evil"), 0o644) },
		"mode":    func(dir string) error { return os.Chmod(filepath.Join(dir, "deps/a"), 0o777) },
		"more":    func(dir string) error { return os.WriteFile(filepath.Join(dir, "deps/b"), nil, 0o644) },
		"less":    func(dir string) error { return os.Remove(filepath.Join(dir, "deps/a")) },
		"renamed": func(dir string) error { return os.Rename(filepath.Join(dir, "deps/a"), filepath.Join(dir, "deps/c")) },
		"link": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "deps/a")), os.Symlink("x", filepath.Join(dir, "deps/a")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			r := result(t, s, keyA, time.Now().UTC())
			damaged, err := s.Verify(t.Context(), 0)
			require.NoError(t, err)
			require.Empty(t, damaged)
			tree, err := s.Tree(r.ID)
			require.NoError(t, err)
			require.NoError(t, damage(tree))
			damaged, err = s.Verify(t.Context(), time.Hour)
			require.NoError(t, err)
			require.Empty(t, damaged, "it was compared recently")
			damaged, err = s.Verify(t.Context(), 0)
			require.NoError(t, err)
			require.Len(t, damaged, 1)
			now, err := s.Current(keyA)
			require.NoError(t, err)
			require.Nil(t, now, "new agents do not get it")
			_, err = s.Tree(r.ID)
			require.NoError(t, err, "agents that have it keep it")
			removed, err := s.Collect(t.Context(), keyA, 5, func() (map[string][]string, error) { return nil, nil })
			require.NoError(t, err)
			require.Equal(t, []string{r.ID}, removed)
		})
	}
}

// fakeTrees reports results as used by nobody.
type fakeTrees struct{ Trees }

func (fakeTrees) UnmountSetup(string) error                { return nil }
func (fakeTrees) SetupsUsed() (map[string][]string, error) { return nil, nil }

// bench is a worker whose command is a function.
type bench struct {
	*Worker
	mu     sync.Mutex
	runs   []string
	events []api.Event
	fail   error
	target string
	moved  chan struct{}
	hold   chan struct{} // a run waits for it
}

func newBench(t *testing.T) *bench {
	run, keep := "npm ci", 1
	limit := config.SetupRules{Run: &run, Inputs: []string{"package-lock.json"}, Keep: &keep}
	b := &bench{target: treeA, moved: make(chan struct{}, 1)}
	s := newStore(t)
	b.Worker = &Worker{Workspace: "w", Store: s, Trees: fakeTrees{}, Rules: func() config.SetupRules { return limit }, Environment: func() []string { return nil },
		Shared: func() bool { return true }, Files: tree, Moved: b.moved, Turn: make(chan struct{}, 1), Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Reset:  func(context.Context) error { return nil },
		Target: func(context.Context) (string, error) { b.mu.Lock(); defer b.mu.Unlock(); return b.target, nil },
		Publish: func(e api.Event) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events = append(b.events, e)
		},
		Run: func(ctx context.Context, key, of string) (Record, error) {
			b.mu.Lock()
			b.runs = append(b.runs, of)
			err, hold := b.fail, b.hold
			b.mu.Unlock()
			if hold != nil {
				select {
				case <-hold:
				case <-ctx.Done():
					return Record{}, context.Cause(ctx)
				}
			}
			if err != nil {
				return Record{Log: "x.log"}, err
			}
			return result(t, s, key, time.Now().UTC()), nil
		}}
	return b
}

func (b *bench) ran() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.runs...)
}

func TestAWorkerMakesWhatTheTargetNeeds(t *testing.T) {
	b := newBench(t)
	b.Open(t.Context())
	defer b.Close()
	require.NoError(t, b.Await(t.Context(), treeA, IfMissing))
	require.Equal(t, []string{treeA}, b.ran())
	require.NoError(t, b.Await(t.Context(), treeA, IfFailed), "it is there")
	require.NoError(t, b.Await(t.Context(), treeC, IfMissing), "it needs none")
	require.Equal(t, []string{treeA}, b.ran())
	require.NoError(t, b.Await(t.Context(), treeA, Again))
	require.Equal(t, []string{treeA, treeA}, b.ran())

	got := ""
	require.NoError(t, b.Claim(t.Context(), treeA, func(r Record) error { got = r.ID; return nil }))
	require.NotEmpty(t, got)
	b.mu.Lock()
	b.target = treeB
	b.mu.Unlock()
	b.moved <- struct{}{}
	require.NoError(t, b.Await(t.Context(), treeB, IfMissing))
	require.Equal(t, []string{treeA, treeA, treeB}, b.ran())
	s, err := b.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, api.SetupReady, s.State)
}

func TestAnAgentWithoutAResultDoesNotWait(t *testing.T) {
	b := newBench(t)
	b.hold = make(chan struct{})
	b.Open(t.Context())
	defer b.Close()
	require.NoError(t, b.Claim(t.Context(), treeB, func(Record) error { return errors.New("there is none") }))
	require.Eventually(t, func() bool { return len(b.ran()) > 0 }, 30*time.Second, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, api.CodeTimeout, api.CodeOf(b.Await(ctx, treeB, IfMissing)))
	s, err := b.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, api.SetupRunning, s.State)
	close(b.hold)
	require.NoError(t, b.Await(t.Context(), treeB, IfMissing))
	require.NoError(t, b.Claim(t.Context(), treeB, func(Record) error { return nil }))
}

func TestAFailedCommandIsNotRepeatedAtOnce(t *testing.T) {
	b := newBench(t)
	b.fail = api.Errorf(api.CodeSetupFailed, "exit code 7")
	b.Open(t.Context())
	defer b.Close()
	require.ErrorIs(t, b.Await(t.Context(), treeA, IfMissing), b.fail)
	require.ErrorIs(t, b.Await(t.Context(), treeA, IfMissing), b.fail)
	require.Len(t, b.ran(), 1)
	s, err := b.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, api.SetupFailed, s.State)
	require.Equal(t, "x.log", s.Log)
	b.mu.Lock()
	require.Equal(t, api.EventSetupFailed, b.events[0].Type)
	require.Equal(t, api.CodeSetupFailed, b.events[0].Code)
	b.fail = nil
	b.mu.Unlock()
	require.NoError(t, b.Await(t.Context(), treeA, IfFailed), "it was requested")
	require.Len(t, b.ran(), 2)
	s, err = b.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, api.SetupReady, s.State)
	require.Empty(t, s.Error)
}

func TestClosingEndsARun(t *testing.T) {
	b := newBench(t)
	b.hold = make(chan struct{})
	b.Open(t.Context())
	waited := make(chan error, 1)
	go func() { waited <- b.Await(context.WithoutCancel(t.Context()), treeA, IfMissing) }()
	require.Eventually(t, func() bool { return len(b.ran()) > 0 }, 30*time.Second, time.Millisecond)
	b.Close()
	require.Error(t, <-waited)
	require.ErrorIs(t, b.Await(context.WithoutCancel(t.Context()), treeB, IfMissing), errEnds, "nobody would serve it")
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(t, b.events, "the next daemon runs it")
}

func TestTheQueueIsBounded(t *testing.T) {
	b := newBench(t)
	for i := range 100 {
		b.Want(strings.Repeat("d", 39) + string(rune('0'+i%10)))
	}
	require.LessOrEqual(t, len(b.queue), maxQueued)
}

// Names of one file become files of their own: agents' overlays would separate them one after the other.
func TestHardLinksBecomeCopies(t *testing.T) {
	s := newStore(t)
	_, dir := made(t, s, keyA, map[string]string{"deps/a/one": "text", "deps/b": "other"})
	at := func(name string) string { return filepath.Join(dir, "upper/deps", name) }
	for _, name := range []string{"two", "a/three"} {
		require.NoError(t, os.Link(at("a/one"), at(name)))
	}
	when := time.Unix(1_700_000_000, 0)
	require.NoError(t, os.Chtimes(at("two"), when, when))
	require.NoError(t, os.Chmod(at("two"), 0o750|os.ModeSticky|os.ModeSetuid))
	got, err := collect(t.Context(), dir, []string{"deps/"}, mine)
	require.NoError(t, err)
	require.EqualValues(t, 6, got.files, "with the directories")
	tree := filepath.Join(dir, "tree")
	seen := map[uint64]bool{}
	for _, name := range []string{"deps/a/one", "deps/two", "deps/a/three"} {
		var st unix.Stat_t
		require.NoError(t, unix.Stat(filepath.Join(tree, name), &st))
		require.EqualValues(t, 1, st.Nlink, name)
		require.EqualValues(t, 0o1750, st.Mode&0o7777, name)
		require.Equal(t, when.Unix(), st.Mtim.Sec, name)
		require.False(t, seen[st.Ino], name)
		seen[st.Ino] = true
		text, err := os.ReadFile(filepath.Join(tree, name))
		require.NoError(t, err)
		require.Equal(t, "text", string(text))
	}
	entries, err := os.ReadDir(filepath.Join(tree, "deps/a"))
	require.NoError(t, err)
	require.Len(t, entries, 2, "no other name is left")
	again, _, err := sum(t.Context(), tree, nil)
	require.NoError(t, err)
	require.Equal(t, got.sum, again, "the checksum is that of the copies")
}

// A file of a megabyte with a thousand names must not fill the disk.
func TestCopiesOfHardLinksAreBounded(t *testing.T) {
	s := newStore(t)
	_, dir := made(t, s, keyA, map[string]string{"deps/a": strings.Repeat("x", 600<<10)})
	at := func(name string) string { return filepath.Join(dir, "upper/deps", name) }
	for _, name := range []string{"b", "c", "d"} {
		require.NoError(t, os.Link(at("a"), at(name)))
	}
	src, err := os.Open(at("a"))
	require.NoError(t, err)
	defer src.Close()
	clone, err := os.Create(filepath.Join(dir, "clone"))
	require.NoError(t, err)
	defer clone.Close()
	if unix.IoctlFileClone(int(clone.Fd()), int(src.Fd())) == nil {
		return // shared blocks take no room
	}
	_, err = collect(t.Context(), dir, []string{"deps/"}, mine)
	require.ErrorContains(t, err, "disk_mb")
	require.NoFileExists(t, filepath.Join(dir, "tree/deps", linkName))
}
