package openfile

import (
	"sync"
	"sync/atomic"
	"syscall"
)

// Budget bounds the descriptors of open files and of pinned inodes.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// Limit is the most there may be.
func (b *Budget) Limit() int { return int(b.limit) }

// Reserve counts one descriptor before it is opened; ENFILE if there are too many.
func (b *Budget) Reserve() syscall.Errno {
	for {
		used := b.used.Load()
		if used >= b.limit {
			return syscall.ENFILE
		}
		if b.used.CompareAndSwap(used, used+1) {
			return 0
		}
	}
}

// Unreserve gives one back.
func (b *Budget) Unreserve() { b.used.Add(-1) }

// Table gives open files the numbers by which the kernel names them. H is the
// caller's handle, a pointer.
type Table[H any] struct {
	Budget Budget

	mu   sync.RWMutex
	next uint64
	m    map[uint64]H
}

// Init makes an empty table of at most limit descriptors.
func (t *Table[H]) Init(limit int) {
	t.Budget.limit, t.m, t.next = int64(limit), map[uint64]H{}, 1
}

// Add registers a handle whose descriptor was reserved.
func (t *Table[H]) Add(h H) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	fh := t.next
	t.next++
	t.m[fh] = h
	return fh
}

// Get returns a handle, or nil.
func (t *Table[H]) Get(fh uint64) H {
	t.mu.RLock()
	h := t.m[fh]
	t.mu.RUnlock()
	return h
}

// Take removes a handle, or returns nil. The caller closes it.
func (t *Table[H]) Take(fh uint64) H {
	t.mu.Lock()
	h, ok := t.m[fh]
	delete(t.m, fh)
	t.mu.Unlock()
	if ok {
		t.Budget.Unreserve()
	}
	return h
}

// All is a copy of the table.
func (t *Table[H]) All() []H {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]H, 0, len(t.m))
	for _, h := range t.m {
		out = append(out, h)
	}
	return out
}

// TakeAll empties the table when the mount has gone. The caller closes the handles.
func (t *Table[H]) TakeAll() []H {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := make([]H, 0, len(t.m))
	for _, h := range t.m {
		left = append(left, h)
	}
	clear(t.m)
	t.Budget.used.Store(0)
	return left
}
