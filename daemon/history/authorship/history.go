package authorship

import (
	"slices"
	"strings"

	"polis/daemon/git"
)

// MaxHistory bounds the commits whose agents are found: older ones have none.
const MaxHistory = 200_000

// History has the parents of commits.
type History map[string][]string

// Add reads a line of git rev-list --parents.
func (h History) Add(line string) {
	f := strings.Fields(line)
	if len(f) == 0 || len(h) >= MaxHistory || slices.ContainsFunc(f, func(id string) bool { return !git.IsOID(id) }) {
		return
	}
	h[f[0]] = f[1:]
}

// mainline returns the commits that a branch was at, newest first.
func (h History) mainline(tip string) (out []string) {
	for {
		parents, ok := h[tip]
		if !ok {
			return out
		}
		out = append(out, tip)
		if len(parents) == 0 || len(out) > len(h) {
			return out
		}
		tip = parents[0]
	}
}

// Introduced returns for each commit of a branch the one of its mainline that brought it to the branch.
func (h History) Introduced(tip string) map[string]string {
	by := make(map[string]string, len(h))
	for _, m := range slices.Backward(h.mainline(tip)) {
		h.mark(m, func(id string) bool {
			if _, seen := by[id]; seen {
				return false
			}
			by[id] = m
			return true
		})
	}
	return by
}

// Between calls each with the commits that head has and base has not.
func (h History) Between(base, head string, each func(id string)) {
	seen := map[string]bool{}
	first := func(id string) bool {
		if seen[id] {
			return false
		}
		seen[id] = true
		return true
	}
	h.mark(base, first)
	h.mark(head, func(id string) bool {
		if !first(id) {
			return false
		}
		each(id)
		return true
	})
}

// mark calls enter with a commit and its ancestors; an ancestor of one for which it returned false only
// if another leads to it.
func (h History) mark(from string, enter func(id string) bool) {
	for todo := []string{from}; len(todo) > 0; {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if parents, ok := h[id]; ok && enter(id) {
			todo = append(todo, parents...)
		}
	}
}
