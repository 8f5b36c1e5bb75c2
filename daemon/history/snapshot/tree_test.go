package snapshot

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/daemon/history/cas"
)

// large is above the size of what is read in one piece.
var large = strings.Repeat("large ", 180_000)

// object is one object of a tree of a test.
type object struct {
	kind    Kind
	content string // of a file; target of a link
	mode    os.FileMode
	attr    string // the value of an extended attribute; "" for none
}

func trees() *rapid.Generator[map[string]object] {
	return rapid.Custom(func(t *rapid.T) map[string]object {
		out := map[string]object{}
		for range rapid.IntRange(0, 10).Draw(t, "objects") {
			var parts []string
			for range rapid.IntRange(1, 3).Draw(t, "depth") {
				parts = append(parts, rapid.SampledFrom([]string{"a", "b", "c:d", "e\nf", "g\\n", "\xff", "a.txt"}).Draw(t, "name"))
			}
			path := strings.Join(parts, "/")
			fits := true
			for p := range out {
				if p == path || strings.HasPrefix(path, p+"/") && out[p].kind != Dir || strings.HasPrefix(p, path+"/") {
					fits = false
				}
			}
			if !fits {
				continue
			}
			for _, dir := range parents(path) {
				if _, there := out[dir]; !there {
					out[dir] = object{kind: Dir, mode: 0o755}
				}
			}
			o := object{kind: rapid.SampledFrom([]Kind{File, File, Dir, Link}).Draw(t, "kind"), mode: os.FileMode(rapid.SampledFrom([]int{0o644, 0o755, 0o600, 0o777, 0o700}).Draw(t, "mode"))}
			o.content = rapid.SampledFrom([]string{"", "", "one", "one", "two\n", "two\n", "../../etc/passwd", "../x", large}).Draw(t, "content")
			switch o.kind {
			case Link:
				o.content = rapid.SampledFrom([]string{"a", "/etc/passwd", "..", "no such"}).Draw(t, "target")
			case File:
				o.attr = rapid.SampledFrom([]string{"", "", "value", "\x00\n"}).Draw(t, "attribute")
			}
			out[path] = o
		}
		return out
	})
}

// create makes a tree, its files in random order.
func create(t require.TestingT, dir string, tree map[string]object, seed uint64) {
	paths := make([]string, 0, len(tree))
	for p := range tree {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	for _, p := range paths {
		if tree[p].kind == Dir {
			require.NoError(t, os.Mkdir(filepath.Join(dir, p), 0o700))
		}
	}
	r := rand.New(rand.NewPCG(seed, 1))
	r.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	for _, p := range paths {
		o, at := tree[p], filepath.Join(dir, p)
		switch o.kind {
		case Link:
			require.NoError(t, os.Symlink(o.content, at))
			continue
		case File:
			require.NoError(t, os.WriteFile(at, []byte(o.content), 0o600))
			if o.attr != "" && attributes {
				require.NoError(t, unix.Setxattr(at, "user.polis.test", []byte(o.attr), 0))
			}
		}
		require.NoError(t, os.Chmod(at, o.mode))
	}
}

// attributes reports whether the file system of temporary directories has extended attributes.
var attributes = func() bool {
	f, err := os.CreateTemp("", "attributes")
	if err != nil {
		return false
	}
	defer os.Remove(f.Name())
	defer f.Close()
	return unix.Fsetxattr(int(f.Fd()), "user.polis.test", []byte("x"), 0) == nil
}()

func scan(t require.TestingT, dir string, sink Sink) *Manifest {
	root, err := os.Open(dir)
	require.NoError(t, err)
	defer root.Close()
	m, err := (&Scan{Root: root, Sink: sink}).Run(context.Background())
	require.NoError(t, err)
	return m
}

// TestSnapshotDeterminism is Π5, Q3 and theorem 2 of seed 002: one state has one hash, on every file
// system and in any order of creation.
func TestSnapshotDeterminism(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := trees().Draw(t, "tree")
		var all []*Manifest
		for i := range 2 {
			dir, err := os.MkdirTemp("", "snapshot")
			require.NoError(t, err)
			defer os.RemoveAll(dir)
			create(t, dir, tree, uint64(i))
			all = append(all, scan(t, dir, Hashes{}), scan(t, dir, Hashes{}))
		}
		for _, m := range all[1:] {
			require.Equal(t, string(all[0].Encode()), string(m.Encode()))
			require.Equal(t, all[0].Content(), m.Content())
			require.Equal(t, all[0].Metadata(), m.Metadata())
		}
		require.True(t, slices.IsSortedFunc(all[0].Entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) }))
	})
}

// TestPropertyATreeIsRestoredExactly: bytes, modes, links, extended attributes and empty directories,
// from any state to any other.
func TestPropertyATreeIsRestoredExactly(t *testing.T) {
	store, err := cas.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	defer store.Close()
	rapid.Check(t, func(t *rapid.T) {
		batch, err := store.Begin(context.Background(), 0)
		require.NoError(t, err)
		defer batch.Close()
		var dirs []string
		var states []*Manifest
		for i := range 2 {
			dir, err := os.MkdirTemp("", "snapshot")
			require.NoError(t, err)
			defer os.RemoveAll(dir)
			create(t, dir, trees().Draw(t, fmt.Sprint("tree ", i)), 0)
			dirs, states = append(dirs, dir), append(states, scan(t, dir, batch))
		}
		require.NoError(t, batch.Commit())
		root, err := os.Open(dirs[0])
		require.NoError(t, err)
		defer root.Close()
		for _, want := range []*Manifest{states[1], states[0], states[1]} {
			now := scan(t, dirs[0], Hashes{})
			steps, err := Plan(now, want, nil)
			require.NoError(t, err)
			require.NoError(t, Apply(context.Background(), root, steps, store, Owner{-1, -1}))
			got := scan(t, dirs[0], Hashes{})
			require.Equal(t, string(want.Encode()), string(got.Encode()))
			steps, err = Plan(got, want, nil)
			require.NoError(t, err)
			require.Empty(t, steps)
		}
	})
}

func TestOnlySelectedPathsAreRestored(t *testing.T) {
	store, err := cas.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	defer store.Close()
	batch, err := store.Begin(t.Context(), 0)
	require.NoError(t, err)
	defer batch.Close()
	dir := t.TempDir()
	create(t, dir, map[string]object{"d": {kind: Dir, mode: 0o755}, "d/a": {kind: File, content: "old", mode: 0o644}, "d/b": {kind: File, content: "old", mode: 0o644}, "e": {kind: File, content: "old", mode: 0o644}}, 0)
	want := scan(t, dir, batch)
	require.NoError(t, batch.Commit())
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "d")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "e"), []byte("new"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("new"), 0o600))
	root, err := os.Open(dir)
	require.NoError(t, err)
	defer root.Close()
	now := scan(t, dir, Hashes{})
	steps, err := Plan(now, want, []string{"d/a"})
	require.NoError(t, err)
	require.NoError(t, Apply(t.Context(), root, steps, store, Owner{-1, -1}))
	require.Equal(t, "old", read(t, dir, "d/a"))
	require.NoFileExists(t, filepath.Join(dir, "d/b"))
	require.Equal(t, "new", read(t, dir, "e"))
	require.Equal(t, "new", read(t, dir, "f"))
	_, err = Plan(now, want, []string{"none"})
	require.ErrorIs(t, err, ErrNoPath)

	// A directory of files that no manifest covers is not removed for a file.
	require.NoError(t, os.Remove(filepath.Join(dir, "e")))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "e", "ignored"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "e", "ignored", "work"), []byte("only copy"), 0o600))
	root2, err := os.Open(dir)
	require.NoError(t, err)
	defer root2.Close()
	now, err = (&Scan{Root: root2, Sink: Hashes{}, Skip: func(p string, _ bool) bool { return p == "e/ignored" }}).Run(t.Context())
	require.NoError(t, err)
	steps, err = Plan(now, want, []string{"e"})
	require.NoError(t, err)
	require.ErrorIs(t, Apply(t.Context(), root, steps, store, Owner{-1, -1}), ErrInTheWay)
	require.Equal(t, "only copy", read(t, dir, "e/ignored/work"))
}

func read(t *testing.T, dir, name string) string {
	b, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(b)
}

// TestHostileTreesAreReadWithinTheirBounds: what is no file is left out and never opened, links are
// not followed, and every bound is kept.
func TestHostileTreesAreReadWithinTheirBounds(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	require.NoError(t, os.Symlink(filepath.Dir(secret), filepath.Join(dir, "out")))
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, "file")))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".git"), []byte("gitdir: /elsewhere"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub", ".git"), 0o755))
	root, err := os.Open(dir)
	require.NoError(t, err)
	defer root.Close()
	s := &Scan{Root: root, Sink: Hashes{}, Exclude: []string{".git"}}
	m, err := s.Run(t.Context())
	require.NoError(t, err)
	var paths []string
	for _, e := range m.Entries {
		paths = append(paths, e.Path)
	}
	require.Equal(t, []string{"file", "out", "sub", "sub/.git"}, paths)
	require.Equal(t, 1, s.Left)
	require.Equal(t, Link, m.Find("out").Kind)
	require.Equal(t, cas.Sum([]byte(secret)), m.Find("file").Hash)

	rewound := func() *os.File {
		again, err := os.Open(dir)
		require.NoError(t, err)
		t.Cleanup(func() { again.Close() })
		return again
	}
	_, err = (&Scan{Root: rewound(), Sink: Hashes{}, MaxFiles: 3}).Run(t.Context())
	require.ErrorIs(t, err, ErrTooLarge)
	hole := filepath.Join(dir, "hole")
	require.NoError(t, os.WriteFile(hole, nil, 0o600))
	require.NoError(t, os.Truncate(hole, 1<<40))
	_, err = (&Scan{Root: rewound(), Sink: Hashes{}, MaxBytes: 1 << 30}).Run(t.Context())
	require.ErrorIs(t, err, ErrTooLarge, "a hole is not read")
	require.NoError(t, os.Remove(hole))

	at := dir
	for range maxDepth + 2 {
		at = filepath.Join(at, "d")
		require.NoError(t, os.Mkdir(at, 0o755))
	}
	_, err = (&Scan{Root: rewound(), Sink: Hashes{}}).Run(t.Context())
	require.ErrorIs(t, err, ErrTooLarge)
}

// A link that replaces a directory of the plan leads nowhere.
func TestApplyFollowsNoLink(t *testing.T) {
	store, err := cas.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	defer store.Close()
	batch, err := store.Begin(t.Context(), 0)
	require.NoError(t, err)
	defer batch.Close()
	dir, outside := t.TempDir(), t.TempDir()
	create(t, dir, map[string]object{"d": {kind: Dir, mode: 0o755}, "d/a": {kind: File, content: "x", mode: 0o644}}, 0)
	want := scan(t, dir, batch)
	require.NoError(t, batch.Commit())
	require.NoError(t, os.Remove(filepath.Join(dir, "d", "a")))
	steps, err := Plan(scan(t, dir, Hashes{}), want, nil)
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, "d")))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "d")))
	root, err := os.Open(dir)
	require.NoError(t, err)
	defer root.Close()
	require.Error(t, Apply(t.Context(), root, steps, store, Owner{-1, -1}))
	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, left)
}
