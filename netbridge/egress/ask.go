package egress

import (
	"net/netip"
	"slices"
	"strings"
)

// askPrefix is before an entry that a person decides about.
const askPrefix = Ask + ":"

// asking is what a person decides about: the entries with "ask:", and the rest with "ask". An
// entry with "ask:" is stronger than one without.
type asking struct {
	Policy
	rest bool
}

func (p *Policy) asking() *asking {
	if p.ask == nil {
		p.ask = &asking{Policy: Policy{exact: map[string]bool{}, under: map[string]bool{}}}
	}
	return p.ask
}

// Asking reports whether a person decides about anything.
func (p Policy) Asking() bool { return p.ask != nil }

// Asks reports whether a person decides about a domain name.
func (p Policy) Asks(name string) bool {
	if p.ask == nil {
		return false
	}
	name = Normal(name)
	// As in Name, no host has a name with an escaped byte.
	if name == "" || strings.IndexByte(name, '\\') >= 0 {
		return false
	}
	return p.ask.Name(name) || p.ask.rest && !p.Name(name)
}

// AsksAddr reports whether a person decides about an address.
func (p Policy) AsksAddr(a netip.Addr) bool {
	return p.ask != nil && (p.ask.Addr(a) || p.ask.rest && !p.Addr(a))
}

// AskedNets are the networks of entries with "ask:".
func (p Policy) AskedNets() []netip.Prefix {
	if p.ask == nil {
		return nil
	}
	return p.ask.Nets()
}

// WithoutAsk is a policy that needs no person and allows nothing that the entries do not.
func WithoutAsk(entries []string) []string {
	out := slices.DeleteFunc(slices.Clone(entries), func(e string) bool { return e == Ask })
	// What an entry with "ask:" takes from another one cannot be written without it.
	if len(out) == 0 || slices.ContainsFunc(out, func(e string) bool { return strings.HasPrefix(e, askPrefix) }) {
		return []string{None}
	}
	return out
}
