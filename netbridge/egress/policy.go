package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The words of a list. Open and None stand alone.
const (
	Open = "open" // the internet; private networks only as configured
	None = "none" // nothing
	Ask  = "ask"  // a person decides about everything that is not listed
)

// MaxEntries bounds a list.
const MaxEntries = 256

// Policy is an egress policy. It is immutable; the zero value allows nothing.
type Policy struct {
	open    bool
	entries []string
	exact   map[string]bool // x.org
	under   map[string]bool // x.org for *.x.org
	nets    []netip.Prefix
	ask     *asking // nil: a person decides about nothing
}

// Parse reads a policy: ["open"], ["none"], or names ("x.org"), names with all
// below them ("*.x.org", which does not include x.org itself), IPv4 addresses
// and IPv4 networks ("192.0.2.0/24"). "ask:" before one of these, or "ask" for
// everything else, leaves the decision to a person ([Policy.Asks]). An empty list
// allows nothing. The error names the entry and the rule it breaks.
func Parse(entries []string) (Policy, error) {
	p := Policy{exact: map[string]bool{}, under: map[string]bool{}}
	if len(entries) > MaxEntries {
		return Policy{}, fmt.Errorf("has %d entries: at most %d", len(entries), MaxEntries)
	}
	for _, e := range entries {
		switch e {
		case Open, None:
			if len(entries) != 1 {
				return Policy{}, fmt.Errorf("%q must stand alone", e)
			}
			return Policy{open: e == Open, entries: []string{e}}, nil
		}
		norm, err := p.read(e)
		if err != nil {
			return Policy{}, fmt.Errorf("%q: %w", shorten(e), err)
		}
		if !slices.Contains(p.entries, norm) {
			p.entries = append(p.entries, norm)
		}
	}
	if len(p.entries) == 0 {
		p.entries = []string{None}
	}
	return p, nil
}

// read adds an entry, with "ask" before it or not.
func (p *Policy) read(e string) (string, error) {
	if e == Ask {
		p.asking().rest = true
		return e, nil
	}
	if rest, ok := strings.CutPrefix(e, askPrefix); ok {
		norm, err := p.asking().add(rest)
		return askPrefix + norm, err
	}
	norm, err := p.add(e)
	if err == nil && (norm == Open || norm == None || norm == Ask) {
		// Entries are read again: "Open", a name here, would be the internet there.
		return "", fmt.Errorf("as a word it is written %q, and no name is the same", norm)
	}
	return norm, err
}

func (p *Policy) add(e string) (string, error) {
	if n, isNet, err := parseNet(e); isNet {
		if err == nil {
			p.nets = append(p.nets, n)
		}
		return showNet(n), err
	}
	rest, wild := strings.CutPrefix(e, "*.")
	name := Normal(rest)
	if err := checkName(name); err != nil {
		return "", err
	}
	if wild {
		p.under[name] = true
		return "*." + name, nil
	}
	p.exact[name] = true
	return name, nil
}

// Open reports whether the whole internet may be reached.
func (p Policy) Open() bool { return p.open }

// Listed reports whether only listed or approved destinations may be reached; false for open and
// for none.
func (p Policy) Listed() bool { return len(p.exact)+len(p.under)+len(p.nets) > 0 || p.ask != nil }

// Entries is the policy as Parse reads it, normalised.
func (p Policy) Entries() []string {
	if len(p.entries) == 0 {
		return []string{None}
	}
	return slices.Clone(p.entries)
}

// Nets are the networks that are named by address.
func (p Policy) Nets() []netip.Prefix { return slices.Clone(p.nets) }

// String is for people: "open", "none", or the entries with commas.
func (p Policy) String() string { return strings.Join(p.Entries(), ",") }

// Name reports whether the policy itself allows a domain name. Case and a final dot make no difference;
// names are compared label by label, never by suffix.
func (p Policy) Name(name string) bool {
	if p.open {
		return true
	}
	name = Normal(name)
	if p.ask != nil && p.ask.Name(name) {
		return false
	}
	if name == "" || len(p.exact)+len(p.under) == 0 {
		return false
	}
	// A label can hold any byte, also a dot, which its text escapes (RFC 4343,
	// 2.1): the labels "evil.x" and "org" are not below "x.org". No host has such
	// a name, and no entry names one.
	if strings.IndexByte(name, '\\') >= 0 {
		return false
	}
	if p.exact[name] {
		return true
	}
	for {
		_, parent, ok := strings.Cut(name, ".")
		if !ok {
			return false
		}
		if p.under[parent] {
			return true
		}
		name = parent
	}
}

// Addr reports whether the policy itself allows an address.
func (p Policy) Addr(a netip.Addr) bool {
	return p.open || contains(p.nets, a.Unmap()) && (p.ask == nil || !p.ask.Addr(a))
}

// With is the policy with further entries, if it is a list: the hosts that a kind of agent needs.
// Open and none stay unchanged.
func (p Policy) With(more []string) (Policy, error) {
	if !p.Listed() || len(more) == 0 {
		return p, nil
	}
	return Parse(append(p.Entries(), more...))
}

// Normal is a name in lower case, without its final dot.
func Normal(name string) string {
	name = strings.TrimSuffix(name, ".")
	b := []byte(name)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' { // DNS folds ASCII only (RFC 4343)
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// checkName requires a host name of RFC 1123, also with underscores, as in names of services.
// Other than ASCII must be written as in the DNS (xn--...).
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case name == "*":
		return errors.New(`to allow everything write "open"`)
	case len(name) > 253:
		return errors.New("a name has at most 253 bytes")
	case strings.Contains(name, "://") || strings.ContainsAny(name, "/@?#"):
		return errors.New("write the host's name only, without scheme, path or user")
	case strings.Contains(name, ":"):
		return errors.New("write the host's name only: a port cannot be listed, and agents have no IPv6")
	case strings.Contains(name, "*"):
		return errors.New(`"*" stands only for all that is below a name, as in "*.x.org"`)
	}
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
			return errors.New("between dots stand 1 to 63 letters, digits and '-', not '-' at an end")
		}
		for _, c := range []byte(l) {
			switch {
			case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
			case c >= 0x80:
				return errors.New("write it as the DNS has it, with xn--")
			default:
				return errors.New("a name has letters, digits, '-', '_' and dots only")
			}
		}
	}
	if last := labels[len(labels)-1]; strings.Trim(last, "0123456789") == "" {
		return errors.New("is neither a name nor an IPv4 address or network")
	}
	return nil
}

// parseNet reads an address or a network; isNet is false for a name.
func parseNet(s string) (p netip.Prefix, isNet bool, err error) {
	if a, err := netip.ParseAddr(s); err == nil {
		p = netip.PrefixFrom(a, a.BitLen())
	} else if p, err = netip.ParsePrefix(s); err != nil {
		return p, false, nil //nolint:nilerr // it must be a name
	}
	switch {
	case !p.Addr().Is4():
		return p, true, errors.New("agents have no IPv6: only IPv4 addresses and networks can be listed")
	case p != p.Masked():
		return p, true, fmt.Errorf("the network of that size begins at %s", p.Masked().Addr())
	case p.Bits() == 0:
		return p, true, errors.New(`to allow everything write "open"`)
	}
	return p, true, nil
}

func showNet(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

func shorten(s string) string {
	if len(s) > 80 {
		return s[:77] + "..."
	}
	return s
}
