package timeline

import (
	"cmp"
	"slices"
	"time"

	"polis/daemon/history/cas"
)

// The order in which the records of one agent make room for those of another: what is made often, the states before rewinds
// of the agent itself, then what was made before tasks, merges and by people's requests.
const (
	often = iota
	rewound
	marked
	fixed // never: a person's snapshots, what is mounted, and states that are nowhere else
)

// holding is what one record keeps in the store. It is of automatic checkpoints if it is not fixed.
type holding struct {
	id, agent string
	at        time.Time
	kind      int
	// lists are the contents that it needs. Records that continue one another have the same lists.
	lists []*contents
}

// contents are some of the store.
type contents struct{ all []content }

type content struct {
	hash cas.Hash
	size int64
}

// wish is a record that has no room.
type wish struct {
	agent string
	// own: the agent makes it itself, or it is made often.
	own bool
	// bytes is how much is to be freed.
	bytes int64
}

// victims returns which records make room for a wish, and how much that frees: at least as much as is wanted, or nothing if the
// rule does not allow that.
//
// The rule: each agent has the same share of the store, without what several agents need. The agent with the most in the
// store goes first, with its oldest records of the kind that goes first. Another agent than that of the wish loses some only
// while it has more than its share and more than that agent has, and only until that agent has its share. For a wish of its
// own, or of what is made often, an agent displaces nothing that another had made before a task, a merge or by a request. The
// newest checkpoint of another agent goes last, and only for an agent within its share: without it, an agent with large files
// would keep others out.
func victims(all []holding, limit int64, w wish) (ids []string, freed int64) {
	r := newFairRoom(all, limit, w)
	fromOthers := int64(0)
	for freed < w.bytes {
		var best *user
		var h *holding
		for _, u := range r.users {
			c := r.candidate(u, fromOthers)
			if c != nil && (best == nil || u.used > best.used || u.used == best.used && u.agent < best.agent) {
				best, h = u, c
			}
		}
		if h == nil {
			return nil, 0
		}
		n := r.remove(best, h)
		if freed += n; best.agent != w.agent {
			fromOthers += n
		}
		ids = append(ids, h.id)
	}
	return ids, freed
}

// fairRoom is the store while victims are chosen.
type fairRoom struct {
	wish  wish
	share int64
	users map[string]*user
	own   *user
	needs map[cas.Hash]*needed
	refs  map[*contents]int // by records
}

// user is an agent with what only it has in the store.
type user struct {
	agent string
	used  int64
	all   []*holding // those that may go, in their order
	last  *holding   // its newest checkpoint
}

// needed is a content, and how many lists have it. by is the agent that needs it, nil for several.
type needed struct {
	size  int64
	lists int
	by    *user
}

func newFairRoom(all []holding, limit int64, w wish) *fairRoom {
	r := &fairRoom{wish: w, users: map[string]*user{}, needs: map[cas.Hash]*needed{}, refs: map[*contents]int{}}
	r.own = r.user(w.agent)
	seen := map[*user]map[*contents]bool{}
	for i := range all {
		h := &all[i]
		u := r.user(h.agent)
		if seen[u] == nil {
			seen[u] = map[*contents]bool{}
		}
		if h.kind != fixed {
			u.all = append(u.all, h)
		}
		if (h.kind == often || h.kind == marked) && (u.last == nil || later(h, u.last) > 0) {
			u.last = h
		}
		for _, l := range h.lists {
			r.refs[l]++
			if !seen[u][l] {
				seen[u][l] = true
				r.need(u, l, r.refs[l] == 1)
			}
		}
	}
	common := int64(0)
	for _, n := range r.needs {
		if n.by == nil {
			common += n.size
		} else {
			n.by.used += n.size
		}
	}
	for _, u := range r.users {
		slices.SortFunc(u.all, func(a, b *holding) int { return cmp.Or(cmp.Compare(a.kind, b.kind), later(a, b)) })
	}
	r.share = max(limit-common, 0) / int64(len(r.users))
	return r
}

func later(a, b *holding) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) }

func (r *fairRoom) user(agent string) *user {
	u := r.users[agent]
	if u == nil {
		u = &user{agent: agent}
		r.users[agent] = u
	}
	return u
}

// need notes that an agent needs the contents of a list, which is a new one or another agent's, too.
func (r *fairRoom) need(u *user, l *contents, newList bool) {
	for _, c := range l.all {
		n := r.needs[c.hash]
		if n == nil {
			n = &needed{size: c.size, by: u}
			r.needs[c.hash] = n
		}
		if n.by != u {
			n.by = nil
		}
		if newList {
			n.lists++
		}
	}
}

// candidate returns the next record of an agent that may go; nil if none may. fromOthers is what others have lost.
func (r *fairRoom) candidate(u *user, fromOthers int64) *holding {
	within := r.own.used+fromOthers < r.share
	if u != r.own && (!within || u.used <= r.share || u.used <= r.own.used+fromOthers) {
		return nil
	}
	var last *holding
	for _, h := range u.all {
		switch {
		case u != r.own && r.wish.own && h.kind == marked:
		case h == u.last:
			last = h
		default:
			return h
		}
	}
	if u == r.own || r.wish.own {
		return nil // the next one continues it
	}
	return last
}

// remove removes a record, and returns how much that frees.
func (r *fairRoom) remove(u *user, h *holding) (freed int64) {
	u.all = slices.DeleteFunc(u.all, func(x *holding) bool { return x == h })
	for _, l := range h.lists {
		if r.refs[l]--; r.refs[l] > 0 {
			continue
		}
		for _, c := range l.all {
			n := r.needs[c.hash]
			if n.lists--; n.lists > 0 {
				continue
			}
			freed += n.size
			if n.by != nil {
				n.by.used -= n.size
			}
		}
	}
	return freed
}
