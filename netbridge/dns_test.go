package netbridge

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// resolver is one of the host's, on port 53 of a loopback address.
func resolver(t testing.TB, addr string, h dns.HandlerFunc) {
	t.Helper()
	pc, err := net.ListenPacket("udp4", addr+":53")
	require.NoError(t, err)
	ln, err := net.Listen("tcp4", addr+":53")
	require.NoError(t, err)
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait) // after the shutdowns below: the last cleanup runs first
	for _, s := range []*dns.Server{{PacketConn: pc, Handler: h}, {Listener: ln, Handler: h}} {
		up := make(chan struct{})
		s.NotifyStartedFunc = func() { close(up) }
		wg.Go(func() { _ = s.ActivateAndServe() })
		<-up
		t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
	}
}

// says answers every question with an A record.
func says(ip string) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		r := new(dns.Msg)
		r.SetReply(q)
		rr, err := dns.NewRR(fmt.Sprintf("%s 60 IN A %s", q.Question[0].Name, ip))
		if err == nil {
			r.Answer = append(r.Answer, rr)
		}
		_ = w.WriteMsg(r)
	}
}

func fails(rcode int) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		_ = w.WriteMsg(new(dns.Msg).SetRcode(q, rcode))
	}
}

func resolvFile(t testing.TB, servers ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "resolv.conf")
	writeServers(t, file, servers...)
	return file
}

func writeServers(t testing.TB, file string, servers ...string) {
	t.Helper()
	var text strings.Builder
	for _, s := range servers {
		fmt.Fprintf(&text, "nameserver %s\n", s)
	}
	tmp := file + ".new" // as programs do that write resolv.conf
	require.NoError(t, os.WriteFile(tmp, []byte(text.String()), 0o644))
	require.NoError(t, os.Rename(tmp, file))
}

// question asks from within the agent's namespace.
func question(t testing.TB, ns *NS, network, name string) *dns.Msg {
	t.Helper()
	r, err := exchange(t, ns, network, new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA))
	require.NoError(t, err)
	return r
}

func exchange(t testing.TB, ns *NS, network string, q *dns.Msg) (*dns.Msg, error) {
	c, err := ns.Dial(t.Context(), network, DNSAddr().String())
	if err != nil {
		return nil, err
	}
	conn := &dns.Conn{Conn: c, UDPSize: dns.DefaultMsgSize}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return nil, err
	}
	if err := conn.WriteMsg(q); err != nil {
		return nil, err
	}
	return conn.ReadMsg()
}

func openDNS(t testing.TB, d *DNS) {
	t.Helper()
	require.NoError(t, d.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, d.Close()) })
}

func addressIn(t testing.TB, r *dns.Msg) string {
	t.Helper()
	require.Equal(t, dns.RcodeSuccess, r.Rcode)
	require.Len(t, r.Answer, 1)
	return r.Answer[0].(*dns.A).A.String()
}

func TestAgentsResolveByTheHostsResolvers(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	resolver(t, "127.0.1.1", says("192.0.2.1"))
	resolver(t, "127.0.1.2", says("192.0.2.2"))
	resolver(t, "127.0.1.3", fails(dns.RcodeServerFailure))
	resolver(t, "127.0.1.4", fails(dns.RcodeNameError))
	file := resolvFile(t, "127.0.1.1")
	openDNS(t, &DNS{NS: ns, ResolvConf: file, Timeout: short, Log: testLog(t)})

	for _, network := range []string{"udp", "tcp"} {
		require.Equal(t, "192.0.2.1", addressIn(t, question(t, ns, network, "example.org")), network)
	}
	writeServers(t, file, "127.0.1.2")
	require.Equal(t, "192.0.2.2", addressIn(t, question(t, ns, "udp", "example.org")), "read again after a change")
	writeServers(t, file, "127.0.1.9", "127.0.1.3", "127.0.1.1")
	require.Equal(t, "192.0.2.1", addressIn(t, question(t, ns, "udp", "example.org")), "dead and failing ones are passed over")
	writeServers(t, file, "127.0.1.4", "127.0.1.1")
	require.Equal(t, dns.RcodeNameError, question(t, ns, "udp", "example.org").Rcode, "no such name is an answer")
	writeServers(t, file, "127.0.1.9")
	require.Equal(t, dns.RcodeServerFailure, question(t, ns, "udp", "example.org").Rcode, "none answers")
	require.NoError(t, os.Remove(file))
	require.Equal(t, dns.RcodeServerFailure, question(t, ns, "udp", "example.org").Rcode, "no file")
}

func TestResolverFilterRefusesNames(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	var asked atomic.Int32
	resolver(t, "127.0.1.1", func(w dns.ResponseWriter, q *dns.Msg) {
		asked.Add(1)
		says("192.0.2.1")(w, q)
	})
	openDNS(t, &DNS{NS: ns, ResolvConf: resolvFile(t, "127.0.1.1"),
		Filter: func(a Asked) bool { return a.Name == "example.org" }})
	require.Equal(t, dns.RcodeNameError, question(t, ns, "udp", "Example.net").Rcode)
	require.Zero(t, asked.Load(), "a refused name does not leave the machine")
	require.Equal(t, "192.0.2.1", addressIn(t, question(t, ns, "udp", "EXAMPLE.org")))
}

func TestLongAnswersFallBackToTCP(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	const records = 400 // more than fits into a datagram of 4096 bytes
	resolver(t, "127.0.1.1", func(w dns.ResponseWriter, q *dns.Msg) {
		r := new(dns.Msg).SetReply(q)
		for i := range records {
			r.Answer = append(r.Answer, &dns.A{
				Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60},
				A:   net.IPv4(192, 0, 2, byte(i)),
			})
		}
		if _, udp := w.RemoteAddr().(*net.UDPAddr); udp {
			r.Truncate(dns.MinMsgSize)
		}
		_ = w.WriteMsg(r)
	})
	openDNS(t, &DNS{NS: ns, ResolvConf: resolvFile(t, "127.0.1.1")})
	r := question(t, ns, "udp", "example.org")
	require.True(t, r.Truncated, "the agent has to retry over TCP")
	r.Compress = true // as it was on the wire
	require.LessOrEqual(t, r.Len(), dns.MinMsgSize)
	require.Len(t, question(t, ns, "tcp", "example.org").Answer, records)
}

func TestResolverTakesHostileQuestions(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	resolver(t, "127.0.1.1", says("192.0.2.1"))
	openDNS(t, &DNS{NS: ns, ResolvConf: resolvFile(t, "127.0.1.1")})

	none := new(dns.Msg)
	none.Id = 7
	two := new(dns.Msg).SetQuestion("a.", dns.TypeA)
	two.Question = append(two.Question, two.Question[0])
	update := new(dns.Msg).SetUpdate("a.")
	for _, q := range []*dns.Msg{none, two, update} {
		r, err := exchange(t, ns, "tcp", q)
		if err == nil { // the library may drop it before we see it
			require.NotEqual(t, dns.RcodeSuccess, r.Rcode)
		}
	}
	c, err := ns.Dial(t.Context(), "udp", DNSAddr().String())
	require.NoError(t, err)
	defer c.Close()
	for _, garbage := range []string{"", "x", strings.Repeat("\xff", 4000)} {
		_, err := c.Write([]byte(garbage))
		require.NoError(t, err)
	}
	require.Equal(t, "192.0.2.1", addressIn(t, question(t, ns, "udp", "example.org")), "still there")
}

func TestResolverBoundsWhatItDoesAtOnce(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	release := make(chan struct{})
	var now, most atomic.Int32
	resolver(t, "127.0.1.1", func(w dns.ResponseWriter, q *dns.Msg) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-release
		now.Add(-1)
		says("192.0.2.1")(w, q)
	})
	openDNS(t, &DNS{NS: ns, ResolvConf: resolvFile(t, "127.0.1.1"), Timeout: 20 * time.Second})
	var g errgroup.Group
	var turnedAway atomic.Int32
	for i := range dnsMaxQuestions + 40 {
		g.Go(func() error {
			r, err := exchange(t, ns, "udp", new(dns.Msg).SetQuestion(fmt.Sprintf("n%d.example.", i), dns.TypeA))
			if err != nil {
				return err
			}
			if r.Rcode == dns.RcodeServerFailure && turnedAway.Add(1) == 40 {
				close(release)
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	require.Equal(t, int32(40), turnedAway.Load())
	require.LessOrEqual(t, most.Load(), int32(dnsMaxQuestions))
}

func TestResolverPortTakenByTheAgent(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	l, err := ns.Listen(t.Context(), "tcp", DNSAddr().String())
	require.NoError(t, err)
	d := &DNS{NS: ns}
	require.Error(t, d.Open(t.Context()))
	require.NoError(t, d.Close())
	require.NoError(t, l.Close())
	require.NoError(t, d.Open(t.Context()), "the UDP socket was given back")
	require.NoError(t, d.Close())
}

func TestResolverCloseDoesNotWaitForDeadResolvers(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	block := make(chan struct{})
	arrived := make(chan struct{}, 1)
	resolver(t, "127.0.1.1", func(w dns.ResponseWriter, q *dns.Msg) {
		arrived <- struct{}{}
		<-block
	})
	t.Cleanup(func() { close(block) })
	d := &DNS{NS: ns, ResolvConf: resolvFile(t, "127.0.1.1"), Timeout: time.Hour}
	require.NoError(t, d.Open(t.Context()))
	c, err := ns.Dial(t.Context(), "udp", DNSAddr().String())
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, (&dns.Conn{Conn: c}).WriteMsg(new(dns.Msg).SetQuestion("example.org.", dns.TypeA)))
	<-arrived
	start := time.Now()
	require.NoError(t, d.Close())
	require.Less(t, time.Since(start), dnsTotalTimeout)
}

func TestLocalNamesAreAnsweredHereAndNotAskedForOutside(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	asked := make(chan string, 16)
	resolver(t, "127.0.0.91", func(w dns.ResponseWriter, q *dns.Msg) {
		asked <- q.Question[0].Name
		says("203.0.113.9")(w, q)
	})
	var addr atomic.Value
	addr.Store(netip.Addr{})
	d := &DNS{NS: ns, ResolvConf: resolvFile(t, "127.0.0.91"), Filter: func(Asked) bool { return false },
		Local: func(a Asked) (netip.Addr, bool) { return addr.Load().(netip.Addr), a.Name == "host.polis" }}
	require.NoError(t, d.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	require.Equal(t, dns.RcodeNameError, question(t, ns, "udp", "host.polis").Rcode)
	addr.Store(netip.MustParseAddr("127.0.0.1"))
	r := question(t, ns, "udp", "Host.Polis")
	require.Equal(t, dns.RcodeSuccess, r.Rcode)
	require.Len(t, r.Answer, 1)
	require.Equal(t, "127.0.0.1", r.Answer[0].(*dns.A).A.String())
	require.Zero(t, r.Answer[0].Header().Ttl)
	six, err := exchange(t, ns, "udp", new(dns.Msg).SetQuestion("host.polis.", dns.TypeAAAA))
	require.NoError(t, err)
	require.Equal(t, dns.RcodeSuccess, six.Rcode)
	require.Empty(t, six.Answer)
	require.Equal(t, dns.RcodeNameError, question(t, ns, "udp", "other.polis").Rcode, "control: the filter refuses the rest")
	require.Empty(t, asked)
}
