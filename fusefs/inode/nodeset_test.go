package inode

import (
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestANodeIsSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Node{}), uintptr(112), "a size class of Go's allocator; there are hundreds of thousands")
}

// A set is compared with a map. Hashes collide often, as a whole and in parts.
func TestANodeSetIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s nodeSet
		hashes, all := map[*Node]uint64{}, []*Node{}
		hash := func(n *Node) uint64 { return hashes[n] }
		has := func(n *Node) bool {
			for at := 0; ; {
				switch s.next(hashes[n], &at) {
				case nil:
					return false
				case n:
					return true
				}
			}
		}
		in := map[*Node]bool{}
		for range 40 {
			n := &Node{}
			hashes[n] = rapid.Uint64Range(0, 9).Draw(t, "low") | rapid.Uint64Range(0, 3).Draw(t, "tag")<<56
			all = append(all, n)
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				n := rapid.SampledFrom(all).Draw(t, "node")
				if in[n] {
					t.Skip("it is there")
				}
				s.add(n, hash)
				in[n] = true
			},
			"cut": func(t *rapid.T) {
				n := rapid.SampledFrom(all).Draw(t, "node")
				require.Equal(t, in[n], s.cut(n, hashes[n], hash))
				delete(in, n)
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(in), s.n)
				for _, n := range all {
					require.Equal(t, in[n], has(n))
				}
				if len(in) == 0 {
					require.Equal(t, nodeSet{}, s, "an empty set keeps nothing")
				}
			},
		})
	})
}

func TestATableIsSmallAgainWhenMostIsForgotten(t *testing.T) {
	table, nodes := walked(50_000)
	stays := nodes[777]
	for _, n := range nodes {
		if n != stays {
			require.Same(t, n, table.Forget(n.ID, 1))
		}
	}
	require.Same(t, stays, table.Get(stays.ID))
	require.Same(t, stays, table.Ref(stays.first.Parent, stays.first.Name, stays.Key, syscall.S_IFREG, 0))
	require.Equal(t, 52, table.Len(), "the root, fifty directories and it")
	require.LessOrEqual(t, table.byID.peak, shrinkAbove)
	slots := 0
	for i := range table.byK.parts {
		slots += len(table.byK.parts[i].slots)
	}
	require.Less(t, slots, 1000)
	require.Len(t, stays.first.Parent.rare.children.first.slots, leastSet)
}

// A hard link's other names are found by all of them, whichever goes first.
func TestEveryNameOfAnObjectIsFoundAndGoes(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		n := w.Ref(w.Root, "a", Key{Ino: 9}, syscall.S_IFREG, 0)
		for _, name := range names[1:] {
			require.Same(t, n, w.Ref(w.Root, name, n.Key, syscall.S_IFREG, 0))
		}
		for i, gone := range rapid.Permutation(names).Draw(t, "order") {
			if rapid.Bool().Draw(t, "moved") {
				w.Renamed(w.Root, gone, w.dirs[1], gone)
				require.Same(t, n, w.At(w.dirs[1], gone))
				require.Nil(t, w.At(w.Root, gone))
				require.Same(t, n, w.Unlinked(w.dirs[1], gone, nil))
				require.Nil(t, w.At(w.dirs[1], gone))
			} else {
				require.Same(t, n, w.Unlinked(w.Root, gone, nil))
				require.Nil(t, w.At(w.Root, gone))
			}
			require.Len(t, w.Refs(n), len(names)-1-i)
		}
		require.False(t, w.dirs[1].hasChildren())
		require.Same(t, n, w.Forget(n.ID, uint64(len(names))))
	})
}

// A rename of one name of an object over another of its names leaves one.
func TestANameMovedOverAnotherOfTheSameObject(t *testing.T) {
	w := newWorld()
	n := w.Ref(w.Root, "a", Key{Ino: 9}, syscall.S_IFREG, 0)
	w.Ref(w.Root, "b", n.Key, syscall.S_IFREG, 0)
	w.Renamed(w.Root, "a", w.Root, "b")
	require.Nil(t, w.At(w.Root, "a"))
	require.Same(t, n, w.At(w.Root, "b"))
	require.Same(t, n, w.Unlinked(w.Root, "b", nil))
	require.Nil(t, w.At(w.Root, "b"))
}

func TestMarksDoNotTouchEachOther(t *testing.T) {
	var n Node
	require.Zero(t, n.SetKeep(keepBits))
	n.setCopyUp(true)
	n.SetMerged()
	require.EqualValues(t, keepBits, n.SetKeep(5))
	require.True(t, n.CopyUp())
	require.True(t, n.Merged())
	n.setCopyUp(false)
	require.False(t, n.CopyUp())
	require.True(t, n.Merged())
	require.EqualValues(t, 5, n.Keep())
}
