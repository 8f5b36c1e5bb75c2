package inode

import "math/bits"

// keyTable finds nodes by their key. It has parts, so that none is so large that copying it
// takes long.
type keyTable struct {
	parts  [64]nodeSet
	secret uint64
}

// hash mixes what identifies an object of a file system, and a secret.
func (t *keyTable) hash(k Key) uint64 {
	hi, lo := bits.Mul64(k.Ino^t.secret, 0x9e3779b97f4a7c15)
	hi, lo = bits.Mul64(hi^lo^uint64(k.btime), 0xd6e8feb86659fd93)
	return hi ^ lo ^ uint64(uint16(k.root))
}

func (t *keyTable) hashNode(n *Node) uint64 { return t.hash(n.Key) }

func (t *keyTable) part(h uint64) *nodeSet { return &t.parts[h>>50%uint64(len(t.parts))] }

func (t *keyTable) get(k Key) *Node {
	h := t.hash(k)
	p := t.part(h)
	for at := 0; ; {
		n := p.next(h, &at)
		if n == nil || n.Key == k {
			return n
		}
	}
}

// add puts a node in, in place of another of that key. A node of an Own key is in no table.
func (t *keyTable) add(n *Node) {
	if n.Key.Own {
		return
	}
	if other := t.get(n.Key); other != nil {
		t.cut(other)
	}
	t.part(t.hash(n.Key)).add(n, t.hashNode)
}

// cut removes a node if it is there.
func (t *keyTable) cut(n *Node) {
	if !n.Key.Own {
		h := t.hash(n.Key)
		t.part(h).cut(n, h, t.hashNode)
	}
}
