package inode

// nodeSet is a hash table of nodes. It keeps no key: the caller compares, and knows the hash of
// each node. A slot costs nine bytes; at most seven of eight are in use.
type nodeSet struct {
	tags  []uint8 // a part of the hash, so that nodes that differ are mostly not read
	slots []*Node // as many: a power of two, or none
	n     int     // nodes
	dead  int     // tags of slots whose node was removed
}

const (
	tagEmpty = 0
	tagDead  = 1
	tagFirst = 2 // the least tag of a node
	leastSet = 8 // slots
)

func tagOf(h uint64) uint8 { return max(uint8(h>>56), tagFirst) }

// next returns a node that may have the hash h, and nil after the last one. at is 0 for the first
// call.
func (s *nodeSet) next(h uint64, at *int) *Node {
	mask := len(s.tags) - 1
	tag := tagOf(h)
	for ; *at <= mask; *at++ {
		i := (int(h) + *at) & mask
		switch s.tags[i] {
		case tagEmpty:
			return nil
		case tag:
			*at++
			return s.slots[i]
		}
	}
	return nil
}

// add puts a node in that is not there. hash returns that of every node in the set.
func (s *nodeSet) add(n *Node, hash func(*Node) uint64) {
	if (s.n+s.dead+1)*8 > len(s.tags)*7 {
		s.resize(hash)
	}
	s.put(n, hash(n))
	s.n++
}

// put fills the first slot that is empty. There is one.
func (s *nodeSet) put(n *Node, h uint64) {
	mask := len(s.tags) - 1
	for i := int(h) & mask; ; i = (i + 1) & mask {
		if s.tags[i] == tagEmpty {
			s.tags[i], s.slots[i] = tagOf(h), n
			return
		}
	}
}

// cut removes a node with the hash h, if it is there.
func (s *nodeSet) cut(n *Node, h uint64, hash func(*Node) uint64) bool {
	mask := len(s.tags) - 1
	for at := 0; at <= mask; at++ {
		i := (int(h) + at) & mask
		switch {
		case s.tags[i] == tagEmpty:
			return false
		case s.slots[i] != n:
			continue
		}
		s.slots[i], s.tags[i] = nil, tagDead
		s.dead++
		for s.tags[i] == tagDead && s.tags[(i+1)&mask] == tagEmpty { // no probe continues behind it
			s.tags[i] = tagEmpty
			s.dead--
			i = (i - 1) & mask
		}
		switch s.n--; {
		case s.n == 0:
			*s = nodeSet{}
		case s.n*8 < len(s.tags) && len(s.tags) > leastSet:
			s.resize(hash)
		}
		return true
	}
	return false
}

// resize makes room for one more node, and gives room back that is not needed.
func (s *nodeSet) resize(hash func(*Node) uint64) {
	size := leastSet
	for size*3 < (s.n+1)*4 { // then three quarters are in use at most
		size *= 2
	}
	old := s.slots
	s.tags, s.slots, s.dead = make([]uint8, size), make([]*Node, size), 0
	for _, n := range old {
		if n != nil {
			s.put(n, hash(n))
		}
	}
}
