package inode

import (
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// world is a table beside what it should know: each object's names, as paths, and how
// often the kernel has looked it up.
type world struct {
	*Table
	dirs    []*Node // with the root; none of them is removed
	objects []*Node
	names   map[string]*Node // path -> object
	lookups map[*Node]uint64
	inos    uint64
}

func newWorld() *world {
	w := &world{Table: New(Key{Ino: 1}), names: map[string]*Node{}, lookups: map[*Node]uint64{}, inos: 1}
	w.dirs = []*Node{w.Root}
	for _, name := range []string{"d", "e"} {
		w.inos++
		d := w.Ref(w.Root, name, Key{Ino: w.inos}, syscall.S_IFDIR, 0)
		w.dirs, w.names[name], w.lookups[d] = append(w.dirs, d), d, 1
	}
	return w
}

func (w *world) path(dir *Node, name string) string {
	for p, n := range w.names {
		if n == dir {
			return p + "/" + name
		}
	}
	return name
}

// place draws a directory and a name that no directory has.
func (w *world) place(t *rapid.T, label string) (*Node, string) {
	return rapid.SampledFrom(w.dirs).Draw(t, label+" directory"), "f" + strconv.Itoa(rapid.IntRange(0, 3).Draw(t, label))
}

func TestTableKnowsTheNamesOfEveryObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		t.Repeat(map[string]func(*rapid.T){
			"look up": func(t *rapid.T) {
				dir, name := w.place(t, "name")
				n := w.names[w.path(dir, name)]
				if n == nil {
					w.inos++
					n = w.Ref(dir, name, Key{Ino: w.inos}, syscall.S_IFREG, 0)
					w.objects = append(w.objects, n)
				} else {
					require.Same(t, n, w.Ref(dir, name, n.Key, syscall.S_IFREG, 0))
				}
				w.names[w.path(dir, name)] = n
				w.lookups[n]++
			},
			"link": func(t *rapid.T) {
				dir, name := w.place(t, "name")
				if len(w.objects) == 0 || w.names[w.path(dir, name)] != nil {
					t.Skip("nothing to link, or no place for it")
				}
				n := rapid.SampledFrom(w.objects).Draw(t, "object")
				if w.Get(n.ID) != n || w.DeadAttr(n) != nil {
					t.Skip("it is gone")
				}
				edits := w.Edits()
				named := w.WasNamed(n)
				require.Same(t, n, w.Ref(dir, name, n.Key, syscall.S_IFREG, 0))
				if named && len(w.Refs(n)) > 1 {
					require.Greater(t, w.Edits(), edits, "what was computed from the names before does not hold")
				}
				w.names[w.path(dir, name)] = n
				w.lookups[n]++
			},
			"unlink": func(t *rapid.T) {
				dir, name := w.place(t, "name")
				n := w.names[w.path(dir, name)]
				delete(w.names, w.path(dir, name))
				var left *fuse.Attr
				if n != nil && !slices.Contains(w.all(), n) {
					left = &fuse.Attr{Ino: n.Key.Ino}
				}
				require.Same(t, n, w.Unlinked(dir, name, left))
				if left != nil {
					require.Same(t, left, w.DeadAttr(n))
				}
			},
			"rename": func(t *rapid.T) {
				from, a := w.place(t, "from")
				to, b := w.place(t, "to")
				n := w.names[w.path(from, a)]
				if n == nil || w.names[w.path(to, b)] != nil {
					t.Skip("nothing to move, or no place for it")
				}
				delete(w.names, w.path(from, a))
				w.names[w.path(to, b)] = n
				w.Renamed(from, a, to, b)
			},
			"exchange": func(t *rapid.T) {
				from, a := w.place(t, "from")
				to, b := w.place(t, "to")
				p, q := w.path(from, a), w.path(to, b)
				if w.names[p] == nil || w.names[q] == nil {
					t.Skip("nothing to exchange")
				}
				w.names[p], w.names[q] = w.names[q], w.names[p]
				w.Exchanged(from, a, to, b)
			},
			"forget": func(t *rapid.T) {
				if len(w.objects) == 0 {
					t.Skip("nothing to forget")
				}
				n := rapid.SampledFrom(w.objects).Draw(t, "object")
				if w.lookups[n] == 0 {
					t.Skip("it is forgotten")
				}
				count := rapid.Uint64Range(1, w.lookups[n]).Draw(t, "count")
				w.lookups[n] -= count
				if w.lookups[n] > 0 {
					require.Nil(t, w.Forget(n.ID, count))
					return
				}
				require.Same(t, n, w.Forget(n.ID, count))
				require.Nil(t, w.Get(n.ID))
				for p, o := range w.names {
					if o == n {
						delete(w.names, p)
					}
				}
				w.objects = slices.DeleteFunc(w.objects, func(o *Node) bool { return o == n })
			},
			"": w.check,
		})
	})
}

// all are the objects with a name.
func (w *world) all() (out []*Node) {
	for _, n := range w.names {
		out = append(out, n)
	}
	return out
}

func (w *world) check(t *rapid.T) {
	for _, dir := range w.dirs {
		for i := range 4 {
			name := "f" + strconv.Itoa(i)
			require.Same(t, w.names[w.path(dir, name)], w.At(dir, name))
		}
	}
	for _, n := range w.objects {
		var want []string
		for p, o := range w.names {
			if o == n {
				want = append(want, p)
			}
		}
		if len(want) > 0 {
			require.ElementsMatch(t, want, w.Paths(n))
			require.Len(t, w.Refs(n), len(want))
		} else {
			require.Empty(t, w.Refs(n))
		}
		_, sole := w.Sole(n)
		require.Equal(t, len(want) == 1, sole)
		require.Same(t, n, w.Get(n.ID))
	}
}

func TestAVerdictEndsWhenADirectoryAboveMoves(t *testing.T) {
	w := newWorld()
	f := w.Ref(w.dirs[1], "f", Key{Ino: 9}, syscall.S_IFREG, 0)
	before := w.VerdictGeneration(1)
	require.Zero(t, before&(1<<GenerationShift-1), "what a verdict says has room below")
	w.Remember(f, before|VerdictShown, w.Edits())
	require.Equal(t, before|VerdictShown, f.Verdict.Load())
	root, ok := w.Routed(w.dirs[1], "f", before)
	require.True(t, ok)
	require.Zero(t, root)

	w.Renamed(w.Root, "d", w.dirs[2], "d")
	require.Equal(t, "e/d/f", w.Path(f))
	after := w.VerdictGeneration(1)
	require.Greater(t, after, before)
	_, ok = w.Routed(w.dirs[1], "f", after)
	require.False(t, ok)

	edits := w.Edits()
	w.Renamed(w.dirs[1], "f", w.Root, "f")
	require.Zero(t, f.Verdict.Load())
	w.Remember(f, after|VerdictShown, edits)
	require.Zero(t, f.Verdict.Load(), "a name has changed since the guard was asked")
}
