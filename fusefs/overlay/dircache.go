package overlay

import (
	"container/list"
	"sync"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// dirCache keeps at most max descriptors of directories, least recently used
// first out. A descriptor in use outlives its eviction until it is put back.
type dirCache struct {
	mu  sync.Mutex
	max int
	lru *list.List // of *dirFD, most recent in front
	m   map[dirKey]*DirFD
}

type dirKey struct {
	n    *inode.Node
	root int
}

// DirFD is an O_PATH descriptor of a directory. refs counts its users, and one
// for the cache itself; the root's are not counted.
type DirFD struct {
	FD    int
	key   dirKey
	refs  int
	elem  *list.Element
	fixed bool
	once  bool // not in the cache: closed when it is put back
}

func newDirCache(max int) *dirCache {
	return &dirCache{max: max, lru: list.New(), m: map[dirKey]*DirFD{}}
}

func (c *dirCache) get(k dirKey) *DirFD {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.m[k]
	if d == nil {
		return nil
	}
	d.refs++
	c.lru.MoveToFront(d.elem)
	return d
}

// add takes ownership of fd and returns it with one use counted. If another
// goroutine was faster, its descriptor is returned.
func (c *dirCache) add(k dirKey, fd int) *DirFD {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.m[k]; d != nil {
		backing.Close(fd)
		d.refs++
		return d
	}
	d := &DirFD{FD: fd, key: k, refs: 2}
	d.elem = c.lru.PushFront(d)
	c.m[k] = d
	for c.lru.Len() > c.max {
		c.evict(c.lru.Back().Value.(*DirFD))
	}
	return d
}

func (c *dirCache) put(d *DirFD) {
	if d.fixed {
		return
	}
	if d.once {
		backing.Close(d.FD)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unref(d)
}

func (c *dirCache) unref(d *DirFD) {
	if d.refs--; d.refs == 0 {
		backing.Close(d.FD)
	}
}

func (c *dirCache) evict(d *DirFD) {
	c.lru.Remove(d.elem)
	delete(c.m, d.key)
	c.unref(d)
}

// drop forgets the descriptors of one directory.
func (c *dirCache) drop(n *inode.Node, roots int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range roots {
		if d := c.m[dirKey{n, i}]; d != nil {
			c.evict(d)
		}
	}
}

func (c *dirCache) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.lru.Len() > 0 {
		c.evict(c.lru.Back().Value.(*DirFD))
	}
}

func (c *dirCache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lru.Len()
}
