package netbridge

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/google/nftables"
)

// Every rule carries a tag as its user data: its place, how many rules its chain has, and a hash of its text. So
// whether a chain still is what was written is read back without a comparison of expressions, which
// kernels list in different ways. A rule that another program adds, replaces or restores from a listing has none.
//
// The form is that of the attributes of libnftnl (type, length, value); nft ignores a type it does not know.
const (
	tagType = 0x70
	tagLen  = 12
)

func tagOf(chain string, place, rules int, text string) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d\x00%s", chain, place, rules, text))
	t := binary.BigEndian.AppendUint16([]byte{tagType, tagLen}, uint16(place))
	return append(binary.BigEndian.AppendUint16(t, uint16(rules)), sum[:8]...)
}

// addRules adds the rules of one chain to a transaction.
func addRules(c *nftables.Conn, t *nftables.Table, chain string, rules []rule) {
	for i, r := range rules {
		c.AddRule(&nftables.Rule{Table: t, Chain: &nftables.Chain{Table: t, Name: chain}, Exprs: r.exprs,
			UserData: tagOf(chain, i, len(rules), r.text)})
	}
}

// wholeTags reports whether the tags of a chain's rules are complete and in order, whatever the rules are.
func wholeTags(tags []string) bool {
	for i, t := range tags {
		if len(t) != 2+tagLen || t[0] != tagType || t[1] != tagLen ||
			int(binary.BigEndian.Uint16([]byte(t[2:]))) != i || int(binary.BigEndian.Uint16([]byte(t[4:]))) != len(tags) {
			return false
		}
	}
	return true
}

// anyTag reports whether one of the rules has a tag: shims of earlier versions write none.
func anyTag(tags []string) bool {
	for _, t := range tags {
		if len(t) > 0 && t[0] == tagType {
			return true
		}
	}
	return false
}
