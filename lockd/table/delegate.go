package table

import (
	"strings"
	"time"
)

// Delegation lets its holder decide alone about everything at and below a directory: no other
// holder has, or gets, a lease there before it is returned.
type Delegation struct {
	// Dir is a path as Rel gives it; "" is the root.
	Dir string
	// Token to Last are the fencing tokens for what the holder grants itself, to be used in this
	// order. A new delegation of the same directory brings new ones that replace the rest.
	Token, Last uint64
}

const (
	// tokenBlock is how many tokens go with a delegation.
	tokenBlock = 1024
	// maxDelegations bounds those of one holder, maxAtOnce those of one request.
	maxDelegations = 1024
	maxAtOnce      = 8
	// hotFor is how long a directory that two agents wanted is not delegated, and maxHot how many
	// such directories the table records at once.
	hotFor = 5 * time.Second
	maxHot = 4096
)

// delegation is the record behind a lease of the table's own: a write lease on a tree that no
// list shows, but that conflicts with every other holder.
type delegation struct {
	dir             string
	first, last     uint64 // of all tokens that went with it
	recalled        bool
	overdue         time.Time // when a recalled one should be back
	overdueReported bool      // reported as overdue
}

// dirOf names a directory of a workspace.
type dirOf struct{ workspace, dir string }

// Rel returns the path of a file key in the tree of files, and false for a ref.
func Rel(key string) (rel string, file bool) {
	p := placeOf(key, false)
	return p.rel, !p.refs
}

func parentOf(rel string) string { return rel[:max(strings.LastIndexByte(rel, '/'), 0)] }

// Delegate gives a session, after a grant of keys, the directories they are in as far as no other
// holder has an interest in them, or new tokens for those it has already. It may give none.
//
// Tokens stay in order on every path: a lease granted there before has a lower token than the
// block, and a lease granted after the return gets a higher one. A lease that the holder itself
// gets from the table meanwhile has a token above the block, and the holder uses no lower one
// after it.
func (t *Table) Delegate(agent, id string, keys []Key) []Delegation {
	s := t.sessions[agent]
	if s == nil || s.id != id || !s.live || t.grace.active {
		return nil
	}
	sp := t.spaces[s.workspace]
	if sp == nil {
		return nil
	}
	var out []Delegation
	for _, k := range keys {
		rel, file := Rel(k.Path)
		if !file || rel == "" || k.Mode != Write || len(out) == maxAtOnce || t.token+tokenBlock >= maxToken {
			continue
		}
		if l := t.delegated(agent, rel); l != nil {
			if d := l.delegation; !d.recalled && !has(out, d.dir) {
				out = append(out, t.block(d))
			}
			continue
		}
		if dir, ok := t.widest(sp, s, parentOf(rel)); ok {
			out = append(out, t.delegate(sp, s, dir))
		}
	}
	return out
}

func has(ds []Delegation, dir string) bool {
	for _, d := range ds {
		if d.Dir == dir {
			return true
		}
	}
	return false
}

// delegated returns the delegation of a holder that rel is in.
func (t *Table) delegated(holder, rel string) *lease {
	of := t.delegations[holder]
	for len(of) > 0 {
		if l := of[rel]; l != nil || rel == "" {
			return l
		}
		rel = parentOf(rel)
	}
	return nil
}

// widest returns the directory to delegate: dir, or as far above it as the holder has delegations
// side by side. A holder that walks a tree so gets the tree, and one that stays in a directory
// gets only that.
func (t *Table) widest(sp *space, s *session, dir string) (string, bool) {
	if len(t.delegations[s.agent]) >= maxDelegations || !t.alone(sp, s, dir) {
		return "", false
	}
	for dir != "" {
		up := parentOf(dir)
		if !t.beside(s.agent, up, dir) || !t.alone(sp, s, up) {
			break
		}
		dir = up
	}
	return dir, true
}

// beside reports whether the holder has a delegation below up and outside of dir.
func (t *Table) beside(holder, up, dir string) bool {
	for other := range t.delegations[holder] {
		if below(up, other) && other != dir && !below(dir, other) {
			return true
		}
	}
	return false
}

// alone reports whether no other session has, awaits or lately wanted anything at or below dir.
func (t *Table) alone(sp *space, s *session, dir string) bool {
	if until, hot := t.hot[dirOf{s.workspace, dir}]; hot && until.After(t.Now()) || !t.cool() {
		return false
	}
	for _, l := range sp.refs.leases {
		if l.Holder != s.agent {
			return false // a holder has the lock of the whole repository
		}
	}
	n, rel := &sp.files, dir
	for n != nil {
		for _, l := range n.leases {
			if (rel == "" || l.place.tree) && (l.Holder != s.agent || l.delegation != nil && l.delegation.recalled) {
				return false
			}
		}
		if rel == "" {
			break
		}
		var c string
		c, rel, _ = strings.Cut(rel, "/")
		n = n.children[c]
	}
	if n != nil {
		for h := range n.below {
			if h != s.agent {
				return false
			}
		}
	}
	for other, l := range t.delegations[s.agent] {
		if l.delegation.recalled && below(dir, other) {
			return false
		}
	}
	p := place{rel: dir, tree: true}
	for _, w := range sp.queue {
		for _, k := range w.Keys {
			if w.Holder != s.agent && placeOf(k.Path, k.Tree).overlap(p) {
				return false
			}
		}
	}
	return true
}

// delegate makes a delegation; those of the holder below become part of it.
func (t *Table) delegate(sp *space, s *session, dir string) Delegation {
	d := &delegation{dir: dir}
	for other, l := range t.delegations[s.agent] {
		if below(dir, other) {
			if d.first == 0 || l.delegation.first < d.first {
				d.first = l.delegation.first
			}
			t.undelegate(l)
		}
	}
	b := t.block(d)
	path := dir
	if dir != "" {
		path = FileKey(dir)
	}
	l := &lease{place: place{rel: dir, tree: true}, delegation: d, Lease: Lease{
		Workspace: s.workspace, Path: path, Holder: s.agent, Mode: Write, Tree: true, Since: t.Now(),
		Token: b.Token, Reason: "has the directory to itself and was asked to give it back",
	}}
	l.attach(&sp.files)
	of := t.delegations[s.agent]
	if of == nil {
		of = map[string]*lease{}
		t.delegations[s.agent] = of
	}
	of[dir] = l
	return b
}

// block reserves tokens for a delegation.
func (t *Table) block(d *delegation) Delegation {
	b := Delegation{Dir: d.dir, Token: t.token + 1, Last: t.token + tokenBlock}
	t.token = b.Last
	if d.first == 0 {
		d.first = b.Token
	}
	d.last = b.Last
	return b
}

// undelegate takes a delegation out of every index. The caller pumps the queue.
func (t *Table) undelegate(l *lease) {
	l.detach()
	of := t.delegations[l.Holder]
	delete(of, l.delegation.dir)
	if len(of) == 0 {
		delete(t.delegations, l.Holder)
	}
	delete(t.recalls, l)
}
