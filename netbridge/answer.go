package netbridge

import (
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"polis/netbridge/egress"
)

// maxTTL bounds the TTL of an answer.
const maxTTL = 24 * time.Hour

// prohibition is the answer for a name that the agent may not resolve.
func prohibition(q *dns.Msg) *dns.Msg {
	r := refusal(q, dns.RcodeNameError)
	if o := q.IsEdns0(); o != nil {
		opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
		opt.SetUDPSize(dns.DefaultMsgSize)
		opt.Option = append(opt.Option, &dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeProhibited,
			ExtraText: "the egress policy of this agent does not allow the name; see /run/polis/why"})
		r.Extra = append(r.Extra, opt)
	}
	return r
}

// local answers a question for a name that is known here. Its time to live is 0:
// what it points to changes with the agent's settings.
func local(q *dns.Msg, addr netip.Addr) *dns.Msg {
	if !addr.IsValid() {
		return prohibition(q)
	}
	r := refusal(q, dns.RcodeSuccess)
	if q.Question[0].Qtype == dns.TypeA {
		r.Answer = []dns.RR{&dns.A{A: addr.AsSlice(), Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET}}}
	}
	return r
}

// admitted keeps of an answer for addresses the alias chain that begins with the queried name,
// and those addresses at its end that Admit allows.
func (d *DNS) admitted(q, r *dns.Msg, a Asked) *dns.Msg {
	chain, found, ttl := follow(r.Answer, a.Name)
	out := stripped(r)
	out.Answer = chain
	if len(found) == 0 {
		return out
	}
	addrs := make([]netip.Addr, 0, len(found))
	for _, rr := range found {
		if ip, ok := netip.AddrFromSlice(rr.A.To4()); ok {
			addrs = append(addrs, ip)
		}
	}
	may := addrs
	if d.Admit != nil {
		var err error
		if may, err = d.Admit(a, addrs, ttl); err != nil {
			d.Log.Error("answer held back: its addresses not opened", "op", "net.dns", "name", a.Name, "err", err)
			return refusal(q, dns.RcodeServerFailure)
		}
	}
	if len(may) == 0 {
		return prohibition(q)
	}
	admit := make(map[netip.Addr]bool, len(may))
	for _, m := range may {
		admit[m] = true
	}
	for _, rr := range found {
		if ip, ok := netip.AddrFromSlice(rr.A.To4()); ok && admit[ip] {
			out.Answer = append(out.Answer, rr)
		}
	}
	return out
}

// follow walks from a name over aliases to addresses and ignores every other record. ttl is the
// shortest on the way.
func follow(answer []dns.RR, name string) (chain []dns.RR, found []*dns.A, ttl time.Duration) {
	ttl = maxTTL
	alias := map[string]*dns.CNAME{}
	for _, rr := range answer {
		if c, ok := rr.(*dns.CNAME); ok {
			alias[egress.Normal(c.Hdr.Name)] = c
		}
	}
	for c := alias[name]; c != nil; c = alias[name] {
		delete(alias, name) // also ends a circle
		chain, name = append(chain, c), egress.Normal(c.Target)
		ttl = min(ttl, time.Duration(c.Hdr.Ttl)*time.Second)
	}
	for _, rr := range answer {
		if a, ok := rr.(*dns.A); ok && egress.Normal(a.Hdr.Name) == name {
			found = append(found, a)
			ttl = min(ttl, time.Duration(a.Hdr.Ttl)*time.Second)
		}
	}
	return chain, found, ttl
}

// stripped is an answer without address records and without the records that the server added
// unasked.
func stripped(r *dns.Msg) *dns.Msg {
	out := r.Copy()
	out.Answer, out.Extra = nil, nil
	for _, rr := range r.Answer {
		switch rr.Header().Rrtype {
		case dns.TypeA, dns.TypeAAAA, dns.TypeHTTPS, dns.TypeSVCB:
		default:
			out.Answer = append(out.Answer, rr)
		}
	}
	if o := r.IsEdns0(); o != nil {
		out.Extra = append(out.Extra, o)
	}
	return out
}
