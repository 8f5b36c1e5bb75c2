package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// MemoryWatch reports that the memory of a group has passed a soft limit. The kernel does the
// measuring: a group that is below costs nothing.
type MemoryWatch struct {
	group *Group
	file  *os.File
	high  string // directory of v2's memory.high, which is reset at the end; else empty
	c     chan struct{}
	done  chan struct{}
}

// WatchMemory starts a watch for a soft limit in bytes. It returns a [ControllerError] on a host
// without a memory controller. The caller must close the watch.
//
// On v1 it is a threshold of memory.usage_in_bytes, which is crossed in either direction
// (Documentation/admin-guide/cgroup-v1/memory.rst, "Memory thresholds"). On v2 it is memory.high:
// above it the kernel reclaims page cache and slows the group down, so the caller closes the watch
// when it knows that the group needs more (cgroup-v2.rst, "Memory Interface Files").
func (g *Group) WatchMemory(soft uint64) (*MemoryWatch, error) {
	hier, ok := g.host.controller(memory)
	if !ok {
		return nil, fmt.Errorf("watch memory of cgroup %s: %w", g.Path, &ControllerError{Controller: memory, Path: g.Path})
	}
	w := &MemoryWatch{group: g, c: make(chan struct{}, 1), done: make(chan struct{})}
	dir, value := g.dir(hier), strconv.FormatUint(soft, 10)
	if hier.v2 {
		// A little above: the kernel lets the use rise hardly beyond, page cache included, and the need
		// would stay just below soft.
		value = strconv.FormatUint(soft+soft/32, 10)
	}
	var err error
	if hier.v2 {
		// First the watch: what passes the limit at once is not missed.
		if w.file, err = notifyV2(dir); err == nil {
			w.high = dir
			err = writeFile(dir, "memory.high", value)
		}
	} else {
		w.file, err = notifyV1(dir, "memory.usage_in_bytes", value)
	}
	if err != nil {
		if w.file != nil {
			w.file.Close()
		}
		return nil, fmt.Errorf("watch memory of cgroup %s: %w", g.Path, err)
	}
	go w.run()
	return w, nil
}

// Passed gets a value when the soft limit was passed. There can be values without a reason, and one
// for several times.
func (w *MemoryWatch) Passed() <-chan struct{} { return w.c }

func (w *MemoryWatch) run() {
	defer close(w.done)
	buf := make([]byte, 4096)
	for {
		if _, err := w.file.Read(buf); err != nil || !w.group.Exists() {
			return
		}
		select {
		case w.c <- struct{}{}:
		default:
		}
	}
}

// Close ends the watch, and the soft limit of v2.
func (w *MemoryWatch) Close() error {
	err := w.file.Close() // which ends a blocked Read
	<-w.done
	if w.high != "" {
		if herr := writeFile(w.high, "memory.high", "max"); herr != nil && !gone(herr) {
			return fmt.Errorf("reset %s: %w", filepath.Join(w.high, "memory.high"), herr)
		}
	}
	return err
}
