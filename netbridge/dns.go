package netbridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"polis/netbridge/egress"
)

const (
	// DefaultResolvConf lists the host's resolvers, resolv.conf(5).
	DefaultResolvConf = "/etc/resolv.conf"

	dnsQueryTimeout = 2 * time.Second // one resolver, one try
	dnsTotalTimeout = 8 * time.Second // one question, all resolvers
	dnsMaxQuestions = 128             // at a time, per agent
	dnsMaxServers   = 3               // MAXNS of resolv.h
)

// DNSAddr is the address of an agent's resolver in its own namespace.
func DNSAddr() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 53}), 53)
}

// Asked is a question of an agent.
type Asked struct {
	Name  string         // lower case, no final dot
	Type  string         // of the record, as "A"
	Proto string         // "udp" or "tcp"
	From  netip.AddrPort // the asking socket, in the agent's namespace
}

// DNS answers an agent's questions on DNSAddr by asking the host's resolvers
// from the host's namespace. It caches nothing.
//
// An agent has no IPv6, so no name has an IPv6 address for it: programs that
// prefer one do not lose time. Records that carry addresses beside those that
// were asked for (HTTPS, SVCB, and what servers add) are left out too.
//
// Set the fields, then Open; Close ends it and waits.
type DNS struct {
	// NS is the agent's namespace. DNS does not close it.
	NS *NS
	// ResolvConf lists the host's resolvers; DefaultResolvConf if empty. It is read again
	// whenever it changes.
	ResolvConf string
	// Filter reports whether the agent may resolve a name; nil allows all. A refused name gets
	// NXDOMAIN, which programs accept at once and do not retry, with the extended error
	// "prohibited" (RFC 8914) if the query uses EDNS.
	Filter func(Asked) bool
	// Local answers names that are never queried outside, before Filter. ok reports such a name;
	// an invalid address means NXDOMAIN. Nil knows none.
	Local func(a Asked) (addr netip.Addr, ok bool)
	// Admit gets the addresses of an answer before it is sent, and returns those that may stay in
	// it. If it returns none, the answer is NXDOMAIN. Nil admits all. An error makes the answer
	// SERVFAIL.
	Admit func(a Asked, addrs []netip.Addr, ttl time.Duration) ([]netip.Addr, error)
	// Timeout bounds one question to one resolver; 2 s if 0.
	Timeout time.Duration
	// Log receives failures; slog.Default if nil.
	Log *slog.Logger

	servers []*dns.Server
	wg      sync.WaitGroup
	ctx     context.Context
	cancel  context.CancelCauseFunc
	slots   chan struct{}
	conf    resolvConf
}

// Open listens in the agent's namespace, UDP and TCP. ctx bounds Open only.
func (d *DNS) Open(ctx context.Context) error {
	if d.ResolvConf == "" {
		d.ResolvConf = DefaultResolvConf
	}
	if d.Timeout <= 0 {
		d.Timeout = dnsQueryTimeout
	}
	if d.Log == nil {
		d.Log = slog.Default()
	}
	d.conf.path = d.ResolvConf
	d.slots = make(chan struct{}, dnsMaxQuestions)
	pc, err := d.NS.ListenPacket(ctx, "udp4", DNSAddr().String())
	if err != nil {
		return fmt.Errorf("agent's resolver: %w", err)
	}
	ln, err := d.NS.Listen(ctx, "tcp4", DNSAddr().String())
	if err != nil {
		return errors.Join(fmt.Errorf("agent's resolver: %w", err), pc.Close())
	}
	d.ctx, d.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	started := make(chan struct{}, 2)
	note := func() { started <- struct{}{} }
	d.servers = []*dns.Server{
		// Without a read timeout the server wakes every two seconds; Shutdown ends a read.
		{PacketConn: pc, Handler: dns.HandlerFunc(d.serve), ReadTimeout: 24 * time.Hour, UDPSize: dns.DefaultMsgSize, NotifyStartedFunc: note},
		{Listener: ln, Handler: dns.HandlerFunc(d.serve), ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
			MaxTCPQueries: dnsMaxQuestions, NotifyStartedFunc: note},
	}
	for _, s := range d.servers {
		d.wg.Go(func() {
			if err := s.ActivateAndServe(); err != nil && d.ctx.Err() == nil {
				d.Log.Error("resolver of the agent stopped", "op", "net.dns", "path", d.NS.Path(), "err", err)
			}
		})
	}
	// Shutdown fails on a server that has not started, so wait until both have.
	for range d.servers {
		<-started
	}
	return nil
}

// Close stops answering and waits for every goroutine.
func (d *DNS) Close() error {
	if d.cancel == nil {
		return nil
	}
	d.cancel(ErrClosed)
	var err error
	for _, s := range d.servers {
		ctx, cancel := context.WithTimeout(context.Background(), dnsTotalTimeout)
		err = errors.Join(err, s.ShutdownContext(ctx))
		cancel()
	}
	d.servers = nil
	d.wg.Wait()
	return err
}

func (d *DNS) serve(w dns.ResponseWriter, q *dns.Msg) {
	from, udp := asker(w.RemoteAddr())
	var r *dns.Msg
	select {
	case d.slots <- struct{}{}:
		r = d.answer(q, from, udp)
		<-d.slots
	default: // too many at a time: refuse at once
		r = refusal(q, dns.RcodeServerFailure)
	}
	if udp {
		size := dns.MinMsgSize
		if o := q.IsEdns0(); o != nil {
			size = max(size, int(o.UDPSize()))
		}
		r.Truncate(size)
	}
	if err := w.WriteMsg(r); err != nil {
		d.Log.Debug("cannot answer", "op", "net.dns", "err", err)
	}
}

func asker(a net.Addr) (from netip.AddrPort, udp bool) {
	switch a := a.(type) {
	case *net.UDPAddr:
		return a.AddrPort(), true
	case *net.TCPAddr:
		return a.AddrPort(), false
	}
	return netip.AddrPort{}, false
}

// answer decides, forwards, and removes from the answer what the agent may not have.
func (d *DNS) answer(q *dns.Msg, from netip.AddrPort, udp bool) *dns.Msg {
	if q.Opcode != dns.OpcodeQuery || len(q.Question) != 1 || q.Response {
		return refusal(q, dns.RcodeFormatError)
	}
	a := Asked{Name: egress.Normal(q.Question[0].Name), Type: dns.Type(q.Question[0].Qtype).String(), Proto: "tcp", From: from}
	if udp {
		a.Proto = "udp"
	}
	if d.Local != nil {
		if addr, ok := d.Local(a); ok {
			return local(q, addr)
		}
	}
	if d.Filter != nil && !d.Filter(a) {
		return prohibition(q)
	}
	switch q.Question[0].Qtype {
	case dns.TypeAAAA, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeANY:
		return refusal(q, dns.RcodeSuccess) // the name exists, the record type does not
	}
	r := d.forward(q, udp)
	if r.Rcode != dns.RcodeSuccess {
		return stripped(r)
	}
	if q.Question[0].Qtype != dns.TypeA {
		return stripped(r)
	}
	return d.admitted(q, r, a)
}

// forward asks the host's resolvers, one after the other.
func (d *DNS) forward(q *dns.Msg, udp bool) *dns.Msg {
	servers, err := d.conf.servers()
	if err != nil {
		d.Log.Warn("cannot read the host's resolvers", "op", "net.dns", "path", d.conf.path, "err", err)
		return refusal(q, dns.RcodeServerFailure)
	}
	ctx, cancel := context.WithTimeout(d.ctx, dnsTotalTimeout)
	defer cancel()
	var failed *dns.Msg
	for _, s := range servers {
		r, err := d.ask(ctx, q, s, udp)
		if err == nil && r.Rcode != dns.RcodeServerFailure && r.Rcode != dns.RcodeRefused {
			return r
		}
		if err == nil {
			failed = r // a resolver's answer is better than one of our own
			continue
		}
		if ctx.Err() != nil {
			break
		}
		d.Log.Debug("resolver did not answer", "op", "net.dns", "server", s, "err", err)
	}
	if failed != nil {
		return failed
	}
	return refusal(q, dns.RcodeServerFailure)
}

// ask puts one question to one resolver, again over TCP if the answer was cut.
func (d *DNS) ask(ctx context.Context, q *dns.Msg, server string, udp bool) (*dns.Msg, error) {
	out := q.Copy()
	out.Id = dns.Id() // an id of our own, so that an agent cannot predict it
	nets := []string{"tcp"}
	if udp {
		nets = []string{"udp", "tcp"}
	}
	for _, network := range nets {
		c := dns.Client{Net: network, Timeout: d.Timeout}
		if network == "udp" {
			c.UDPSize = dns.DefaultMsgSize
		}
		r, err := exchangeOnce(ctx, &c, out, server)
		if err != nil {
			return nil, err
		}
		if !r.Response || len(r.Question) != 1 || !strings.EqualFold(r.Question[0].Name, q.Question[0].Name) {
			return nil, fmt.Errorf("resolver %s answered another question", server)
		}
		if r.Truncated && network == "udp" {
			continue
		}
		r.Id = q.Id
		return r, nil
	}
	return nil, fmt.Errorf("resolver %s gave no answer", server)
}

// exchangeOnce ends with ctx; the library's own ExchangeContext takes from it
// the deadline only.
func exchangeOnce(ctx context.Context, c *dns.Client, q *dns.Msg, server string) (*dns.Msg, error) {
	conn, err := c.DialContext(ctx, server)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		if stop() {
			_ = conn.Close() // nothing was left to send
		}
	}()
	r, _, err := c.ExchangeWithConnContext(ctx, q, conn)
	return r, err
}

func refusal(q *dns.Msg, rcode int) *dns.Msg {
	r := new(dns.Msg)
	r.SetRcode(q, rcode)
	r.RecursionAvailable = true
	return r
}
