package gitdir

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const codeQuota = "QUOTA"

// codeBadTree is what a tree that git does not check out is refused with.
const codeBadTree = "BAD_TREE"

// leastObject is what an object takes at least: some file systems keep small
// files in the inode, of which there are not more than there are blocks.
const leastObject = 4096

// sizeOf is what a file takes on disk.
func sizeOf(fd int) (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("read the new object: %w", err)
	}
	return max(st.Blocks*512, st.Size, leastObject), nil
}

// full says whether size more bytes are over the agent's quota, or nothing is
// left of it.
func (g *Guard) full(size int64) bool {
	if g.cfg.Quota <= 0 {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used+size > g.cfg.Quota || g.used == g.cfg.Quota
}

// spend counts what was published; what is removed later is not counted back.
func (g *Guard) spend(size int64) {
	g.mu.Lock()
	g.used += size
	n := g.used
	g.mu.Unlock()
	if g.cfg.OnUsed != nil {
		g.cfg.OnUsed(n)
	}
}

// Used is what the agent has added to objects, in bytes on disk.
func (g *Guard) Used() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used
}

func (g *Guard) quotaHint() string {
	return fmt.Sprintf("this agent may add %d MB of git objects (limits.git_objects_mb)", g.cfg.Quota>>20)
}
