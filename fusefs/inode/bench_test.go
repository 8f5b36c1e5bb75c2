package inode

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
)

// walked makes a table as a walk through so many files does, a thousand in each directory.
func walked(files int) (*Table, []*Node) {
	t := New(Key{Ino: 1})
	nodes := make([]*Node, 0, files)
	dir := t.Root
	for i := range files {
		if i%1000 == 0 {
			dir = t.Ref(t.Root, fmt.Sprintf("module%03d", i/1000), Key{Ino: uint64(2 + i/1000), btime: int64(i)}, syscall.S_IFDIR, 0)
		}
		k := Key{Ino: uint64(1000 + i), btime: int64(1e18 + i), Dev: 7}
		nodes = append(nodes, t.Ref(dir, fmt.Sprintf("source-file-%05d.txt", i), k, syscall.S_IFREG, 0))
	}
	return t, nodes
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMemory reports what one inode of 100,000 costs, its name of 21 bytes included.
func BenchmarkMemory(b *testing.B) {
	const files = 100_000
	for range b.N {
		before := heap()
		t, nodes := walked(files)
		nodes[0] = nil
		nodes = nil
		b.ReportMetric(float64(heap()-before)/files, "bytes/inode")
		runtime.KeepAlive(t)
		runtime.KeepAlive(nodes)
	}
	b.ReportMetric(0, "ns/op")
}

func BenchmarkKnown(b *testing.B) {
	t, nodes := walked(100_000)
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			if t.Get(nodes[i*7919%len(nodes)].ID) == nil {
				b.Fatal("gone")
			}
		}
	})
	b.Run("at", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			n := nodes[i*7919%len(nodes)]
			if t.At(n.first.Parent, n.first.Name) != n {
				b.Fatal("another")
			}
		}
	})
	b.Run("ref", func(b *testing.B) {
		b.ReportAllocs()
		for i := range b.N {
			n := nodes[i*7919%len(nodes)]
			if t.Ref(n.first.Parent, n.first.Name, n.Key, syscall.S_IFREG, 0) != n {
				b.Fatal("another")
			}
		}
	})
}

func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	var t *Table
	var dir *Node
	for i := range b.N {
		if i%100_000 == 0 {
			t = New(Key{Ino: 1})
		}
		if i%1000 == 0 {
			dir = t.Ref(t.Root, fmt.Sprintf("module%03d", i/1000), Key{Ino: uint64(2 + i/1000), btime: int64(i)}, syscall.S_IFDIR, 0)
		}
		t.Ref(dir, names[i%1000], Key{Ino: uint64(1e6 + i), btime: int64(1e18 + i), Dev: 7}, syscall.S_IFREG, 0)
	}
}

var names = func() (out [1000]string) {
	for i := range out {
		out[i] = fmt.Sprintf("source-file-%05d.txt", i)
	}
	return out
}()

func BenchmarkForget(b *testing.B) {
	b.ReportAllocs()
	var t *Table
	var nodes []*Node
	for i := range b.N {
		if i%100_000 == 0 {
			b.StopTimer()
			t, nodes = walked(100_000)
			b.StartTimer()
		}
		t.Forget(nodes[i%100_000].ID, 1)
	}
}
