package gitdir

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const codeQuota = "QUOTA"

// codeBadTree is the code of the refusal of a tree that git does not check out.
const codeBadTree = "BAD_TREE"

// leastObject is the least space that is charged for an object: some file systems store small
// files in the inode, and have no more inodes than blocks.
const leastObject = 4096

// sizeOf returns the space that a file takes on disk.
func sizeOf(fd int) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("read the new object: %w", err)
	}
	return max(st.Blocks*512, st.Size, leastObject), nil
}

// full reports whether size more bytes exceed the agent's quota, or the quota is used up.
func (g *Guard) full(size int64) bool {
	if g.cfg.Quota <= 0 {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used+size > g.cfg.Quota || g.used == g.cfg.Quota
}

// spend charges published bytes. Bytes that are removed later are not credited.
func (g *Guard) spend(size int64) {
	g.mu.Lock()
	g.used += size
	n := g.used
	g.mu.Unlock()
	if g.cfg.OnUsed != nil {
		g.cfg.OnUsed(n)
	}
}

// Used returns the bytes on disk that the agent has added to objects.
func (g *Guard) Used() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

func (g *Guard) quotaHint() string {
	return fmt.Sprintf("this agent may add %d MB of git objects (limits.git_objects_mb)", g.cfg.Quota>>20)
}
