package timeline

import (
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/history/snapshot"
	"polis/fusefs/policy/glob"
)

// Held are patterns of files that git ignores and a checkpoint has all the same ([snapshots] ignored). The zero value
// has none.
type Held struct {
	texts    []string
	patterns []*glob.Pattern
}

// NewHeld compiles patterns. It is an error if one is no pattern of gitignore(5).
func NewHeld(patterns []string) (Held, error) {
	h := Held{texts: slices.Clone(patterns)}
	for _, text := range patterns {
		p, err := glob.Compile(text)
		if err != nil {
			return Held{}, err
		}
		h.patterns = append(h.patterns, p)
	}
	return h, nil
}

// has reports whether a pattern names a path, or a directory above it.
func (h Held) has(path string, dir bool) bool {
	return slices.ContainsFunc(h.patterns, func(p *glob.Pattern) bool { return p.CoversTree(path, dir) })
}

// leadsTo reports whether something below a directory can be named by a pattern with a slash in it. A pattern without one
// names files everywhere; all directories that git ignores would be read for it.
func (h Held) leadsTo(dir string) bool {
	return slices.ContainsFunc(h.patterns, func(p *glob.Pattern) bool {
		return strings.Contains(strings.TrimSuffix(p.String(), "/"), "/") && p.MayMatchBelow(dir)
	})
}

// stamp is a part of Tree.Rules.
func (h Held) stamp() string { return strings.Join(h.texts, "\n") }

// leaves reports whether a checkpoint does not have a path.
func (t Tree) leaves(path string, dir bool) bool {
	switch {
	case !t.Ignored(path, dir):
		return false
	case inGit(path):
		return true // of a repository in the worktree: git could run what is in it
	}
	if !t.Held.has(path, dir) && !(dir && t.Held.leadsTo(path)) {
		return true
	}
	for i := range len(path) { // a directory that is not read has nothing
		if d := path[:i]; i > 0 && path[i] == '/' && t.Ignored(d, true) && !t.Held.has(d, true) && !t.Held.leadsTo(d) {
			return true
		}
	}
	return false
}

func inGit(path string) bool { return strings.Contains("/"+path+"/", "/.git/") }

// rules is a stamp of what decides what a checkpoint has and is not in the tree.
func (t Tree) rules() string {
	if len(t.Held.texts) == 0 {
		return t.Rules
	}
	return t.Rules + "\n" + t.Held.stamp()
}

// spare leaves alone the files that git ignores and the goal could not have, because other patterns were configured then.
func (r *restorer) spare(tree Tree) error {
	if r.w.rec.Covers != api.SnapshotFiles || slices.Equal(r.ignored, tree.Held.texts) {
		return nil
	}
	then, err := NewHeld(r.ignored)
	if err != nil {
		return err
	}
	now := &snapshot.Manifest{}
	for i := range r.now.Entries {
		e := &r.now.Entries[i]
		dir := e.Kind == snapshot.Dir
		if r.want.Find(e.Path) != nil || !tree.Ignored(e.Path, dir) || then.has(e.Path, dir) || dir && then.leadsTo(e.Path) {
			now.Entries = append(now.Entries, *e)
		}
	}
	r.now = now
	return nil
}
