package inode

// idPage is how many numbers a page of an idTable has.
const idPage = 64

// idTable finds nodes by their number. Numbers are given out one after the other, so those in
// use are close to each other. The zero value is empty.
type idTable struct {
	pages map[uint64]*[idPage]*Node
	n     int
	peak  int // most pages since the map was made
}

func (t *idTable) get(id uint64) *Node {
	if p := t.pages[id/idPage]; p != nil {
		return p[id%idPage]
	}
	return nil
}

func (t *idTable) add(n *Node) {
	p := t.pages[n.ID/idPage]
	if p == nil {
		if t.pages == nil {
			t.pages = map[uint64]*[idPage]*Node{}
		}
		p = new([idPage]*Node)
		t.pages[n.ID/idPage] = p
		t.peak = max(t.peak, len(t.pages))
	}
	p[n.ID%idPage] = n
	t.n++
}

// cut removes a node that is there.
func (t *idTable) cut(n *Node) {
	p := t.pages[n.ID/idPage]
	p[n.ID%idPage] = nil
	t.n--
	if *p != [idPage]*Node{} {
		return
	}
	delete(t.pages, n.ID/idPage)
	if t.peak < shrinkAbove || len(t.pages)*8 > t.peak {
		return
	}
	t.peak = len(t.pages) // a map of Go's keeps its memory, so a smaller one replaces it
	pages := make(map[uint64]*[idPage]*Node, len(t.pages))
	for i, p := range t.pages {
		pages[i] = p
	}
	t.pages = pages
}

// shrinkAbove is the size from which a map is worth being replaced, in elements.
const shrinkAbove = 256

func (t *idTable) each(f func(*Node)) {
	for _, p := range t.pages {
		for _, n := range p {
			if n != nil {
				f(n)
			}
		}
	}
}
