package shim

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/rules/approval"
	"polis/daemon/shim/leftover"
)

const (
	// coverTime is how long the approval of a tool's call holds for what the call does to its files.
	coverTime = 2 * time.Minute
	// maxCoverPaths bounds the files of one call, maxCovers the calls of an agent at a time.
	maxCoverPaths = 16
	maxCovers     = 64
)

// cover is a person's approval of one call of a tool for files. It holds for the questions at the system calls of that call:
// of the process that asked and of what that starts, about the paths that the person saw, until the call is over.
type cover struct {
	id     string
	answer api.Answer
	// asked is the question, without its details.
	asked approval.Question
	line  leftover.Line // of the process that asked; later of the one that uses it
	since uint64        // when the answer came, in ticks of the kernel
	until time.Time     // zero before the answer
	// told has what was recorded already.
	told map[api.ApprovalKind]map[string]bool
}

// holds reports whether the cover is for a path. An edit reads the file, too; what reads does not write.
func (c *cover) holds(kind api.ApprovalKind, path string, now time.Time) bool {
	if c.until.IsZero() || now.After(c.until) || !slices.Contains(c.asked.Paths, path) {
		return false
	}
	return c.asked.Class == api.ToolEdit || kind == api.ApprovalRead && c.asked.Class == api.ToolRead
}

// covers are those of the agent's command that runs. The zero value has none, and takes none.
type covers struct {
	mu    sync.Mutex
	all   []*cover // oldest first
	runs  bool
	which uint64 // counts the commands
}

// begin is called when the agent's command begins, and end when it has ended: covers end with it.
func (c *covers) begin() { c.next(true) }
func (c *covers) end()   { c.next(false) }

func (c *covers) next(runs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.runs = nil, runs
	c.which++
}

// command identifies the command that runs, for add.
func (c *covers) command() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.which
}

// add adds a cover of a command, if that still runs. It holds from open on. Until then what ends the covers of its paths
// ends it, too.
func (c *covers) add(n *cover, command uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.runs || c.which != command {
		return
	}
	now := time.Now()
	c.all = slices.DeleteFunc(c.all, func(o *cover) bool { return !o.until.IsZero() && now.After(o.until) })
	c.all = append(c.all, n)
	c.all = c.all[max(0, len(c.all)-maxCovers):]
}

// open lets a cover that was added hold, as set says, unless it has ended.
func (c *covers) open(o *cover, set func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.all, o) {
		set()
	}
}

// drop ends one cover.
func (c *covers) drop(o *cover) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = slices.DeleteFunc(c.all, func(other *cover) bool { return other == o })
}

// over ends the covers of paths.
func (c *covers) over(paths []string) {
	these := make(map[string]bool, len(paths)) // a patch can have thousands
	for _, p := range paths {
		these[p] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = slices.DeleteFunc(c.all, func(o *cover) bool {
		return slices.ContainsFunc(o.asked.Paths, func(p string) bool { return these[p] })
	})
}

// of returns the covers for a path, with their lines, the newest first.
func (c *covers) of(kind api.ApprovalKind, path string, now time.Time) (all []*cover, lines []leftover.Line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range slices.Backward(c.all) {
		if o.holds(kind, path, now) {
			all, lines = append(all, o), append(lines, o.line)
		}
	}
	return all, lines
}

// use notes that a process of a line uses a cover, and reports whether that still holds, and whether it is to be recorded.
func (c *covers) use(o *cover, line leftover.Line, kind api.ApprovalKind, path string) (holds, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.all, o) {
		return false, false
	}
	o.line = line
	if first = !o.told[kind][path]; first {
		if o.told == nil {
			o.told = map[api.ApprovalKind]map[string]bool{}
		}
		if o.told[kind] == nil {
			o.told[kind] = map[string]bool{}
		}
		o.told[kind][path] = true
	}
	return true, first
}

// coverable are the paths of a question that its approval can cover; none if the person does not see all of the question's
// text, or if it is not about single files.
func coverable(q approval.Question) []string {
	if q.Class != api.ToolRead && q.Class != api.ToolEdit || len(q.Paths) == 0 || len(q.Paths) > maxCoverPaths {
		return nil
	}
	if _, hidden := approval.Bounded(q.Text, approval.MaxShown); hidden > 0 {
		return nil
	}
	var paths []string
	for _, p := range q.Paths {
		if filepath.IsLocal(p) && p != "." {
			paths = append(paths, strings.Clone(p))
		}
	}
	return paths
}
