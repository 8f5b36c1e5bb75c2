package fusefs

import (
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"

	"polis/fusefs/inode"
)

// meant returns which of the files that had a name each path of a call means, nil for what has the name now. Where the
// kernel does not repeat a call (filename_create in fs/namei.c), the first answer must be right.
func (fs *FS) meant(h *fuse.InHeader, name string, paths []string, all []*inode.Former) (known []*inode.Former) {
	parent := fs.tree.Get(h.NodeId)
	var here []string
	if _, named := fs.tree.Nth(parent, 0); named || parent == fs.tree.Root { // else its path can be another directory's
		here = append(here, fs.tree.Child(parent, name))
	}
	if n := fs.tree.At(parent, name); n != nil {
		here = append(here, fs.tree.SomePaths(n, inode.FewNames)...)
	}
	for _, path := range paths {
		m := match{path: path}
		if rel, below := fs.belowOverlay(path); below && !fs.throughLink(rel) {
			m.path, m.exact = rel, true
		}
		m.try(nil, here)
		for _, one := range all {
			m.try(one, fs.tree.SomePaths(one.Node, inode.FewNames))
		}
		if m.best > 0 && !m.other {
			known = append(known, m.one)
		}
	}
	return known
}

// belowOverlay returns a path below the overlay.
func (fs *FS) belowOverlay(path string) (rel string, below bool) {
	for _, at := range fs.cfg.AbovePaths {
		if rel, below = strings.CutPrefix(path, at+"/"); below {
			return rel, true
		}
	}
	return "", false
}

// throughLink reports whether a path can lead through a symbolic link: the view knows all directories with files that
// had other names, and may not know a link.
func (fs *FS) throughLink(rel string) bool {
	parts := strings.Split(rel, "/")
	n := fs.tree.Root
	for _, part := range parts[:len(parts)-1] {
		if n = fs.tree.At(n, part); n == nil || !n.IsDir() {
			return true
		}
	}
	return false
}

// match finds which file a path is one of. What comes before the last names of a path that cannot be resolved is
// unknown: the file is the one that has the most of them, or has no other.
type match struct {
	path  string
	exact bool
	best  int // how well one is
	one   *inode.Former
	other bool // another file is as well
}

func (m *match) try(one *inode.Former, names []string) {
	for _, name := range names {
		same := sameEnd(m.path, name)
		switch {
		case m.exact && (m.best > 0 || m.path != name), same < max(m.best, 2):
		case same > m.best:
			m.best, m.one, m.other = same, one, false
		case m.one != one:
			m.other = true
		}
	}
}

// sameEnd returns how well a path is the end of another one: twice the number of names at their ends that are the same,
// and one more if all of name are.
func sameEnd(path, name string) (n int) {
	for path != "" && name != "" {
		i, j := strings.LastIndexByte(path, '/'), strings.LastIndexByte(name, '/')
		if path[i+1:] != name[j+1:] {
			return n
		}
		n += 2
		path, name = path[:max(i, 0)], name[:max(j, 0)]
	}
	if name == "" {
		n++
	}
	return n
}
