package e2e

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/netbridge"
)

// internet is the outside of a test's host: a network namespace with both address families, web
// servers on every address, and a name server. The host is a namespace, too, so that the machine's
// own network is not touched.
type internet struct {
	t    testing.TB
	host string // file of the host's namespace
	ns   *netbridge.NS
	in   *netbridge.NS // the host's, for servers on it

	mu    sync.Mutex
	names map[string][]string // name: addresses, or "CNAME other"
	asked map[string]int
}

const (
	hostAddr = "198.51.100.2"
	dnsAddr  = "203.0.113.53"
)

func newInternet(t testing.TB) *internet {
	t.Helper()
	needRoot(t)
	needProgram(t, "ip")
	needProgram(t, "nsenter")
	needProgram(t, "unshare")
	run := func(ns string, args ...string) {
		t.Helper()
		out, err := exec.Command("nsenter", append([]string{"--net=" + ns, "ip"}, args...)...).CombinedOutput()
		require.NoError(t, err, "ip %s: %s", strings.Join(args, " "), out)
	}
	host, world := netNS(t), netNS(t)
	for _, ns := range []string{host, world} {
		run(ns, "link", "set", "lo", "up")
	}
	run(host, "link", "add", "up0", "type", "veth", "peer", "name", "eth0", "netns", world)
	for _, a := range [][]string{
		{host, "addr", "add", hostAddr + "/24", "dev", "up0"}, {host, "addr", "add", "2001:db8:1::2/64", "dev", "up0", "nodad"},
		{host, "link", "set", "up0", "up"}, {world, "link", "set", "eth0", "up"},
		{world, "addr", "add", "198.51.100.1/24", "dev", "eth0"}, {world, "addr", "add", "2001:db8:1::1/64", "dev", "eth0", "nodad"},
		{world, "addr", "add", "203.0.113.1/32", "dev", "lo"}, {world, "addr", "add", "203.0.113.2/32", "dev", "lo"},
		{world, "addr", "add", "203.0.113.3/32", "dev", "lo"}, {world, "addr", "add", dnsAddr + "/32", "dev", "lo"},
		{world, "addr", "add", "10.1.2.3/32", "dev", "lo"}, {world, "addr", "add", "169.254.169.254/32", "dev", "lo"},
		{world, "addr", "add", "2001:db8:2::1/128", "dev", "lo", "nodad"}, {world, "addr", "add", "fd00:ec2::254/128", "dev", "lo", "nodad"},
		{host, "route", "add", "default", "via", "198.51.100.1"}, {host, "-6", "route", "add", "default", "via", "2001:db8:1::1"},
		{host, "route", "add", "169.254.169.254/32", "via", "198.51.100.1"},
	} {
		run(a[0], a[1:]...)
	}
	i := &internet{t: t, host: host, names: map[string][]string{}, asked: map[string]int{}}
	i.ns, i.in = i.enter(world), i.enter(host)
	i.web(i.ns, "[::]:80", "internet")
	i.dns()
	return i
}

// netNS makes a network namespace and returns its file. "ip netns add" would
// mount /run/netns, and leave that mount on a machine which did not have it.
func netNS(t testing.TB) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "net")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	out, err := exec.Command("unshare", "--net="+file, "true").CombinedOutput()
	require.NoError(t, err, "unshare: %s", out)
	t.Cleanup(func() { require.NoError(t, unix.Unmount(file, 0)) })
	return file
}

func (i *internet) enter(file string) *netbridge.NS {
	i.t.Helper()
	ns, err := netbridge.OpenNS(file)
	require.NoError(i.t, err)
	i.t.Cleanup(func() { require.NoError(i.t, ns.Close()) })
	return ns
}

// web answers with its name, and the address that the client connected to, and then echoes its
// input.
func (i *internet) web(ns *netbridge.NS, addr, name string) {
	i.t.Helper()
	l, err := ns.Listen(i.t.Context(), "tcp", addr)
	require.NoError(i.t, err)
	var wg sync.WaitGroup
	i.t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			stop := make(chan struct{})
			wg.Go(func() {
				select {
				case <-i.t.Context().Done():
				case <-stop:
				}
				_ = c.Close()
			})
			wg.Go(func() {
				defer close(stop)
				buf := make([]byte, 4096)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					if strings.HasPrefix(string(buf[:n]), "GET ") {
						text := name + " " + c.LocalAddr().(*net.TCPAddr).IP.String()
						fmt.Fprintf(c, "HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
						return
					}
					if _, err := c.Write(buf[:n]); err != nil {
						return
					}
				}
			})
		}
	})
}

// name sets the addresses of a name from now on.
func (i *internet) name(name string, to ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.names[name] = to
}

// questions is how often a name was asked for out there.
func (i *internet) questions(name string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked[name]
}

// dns answers questions for addresses, RFC 1035: enough of it for a resolver.
func (i *internet) dns() {
	i.t.Helper()
	c, err := i.ns.ListenPacket(i.t.Context(), "udp4", dnsAddr+":53")
	require.NoError(i.t, err)
	done := make(chan struct{})
	i.t.Cleanup(func() {
		_ = c.Close()
		<-done
	})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			if r := i.answer(buf[:n]); r != nil {
				_, _ = c.WriteTo(r, from)
			}
		}
	}()
}

func (i *internet) answer(q []byte) []byte {
	if len(q) < 17 {
		return nil
	}
	var labels []string
	p := 12
	for p < len(q) && q[p] != 0 {
		if p+1+int(q[p]) > len(q) {
			return nil
		}
		labels = append(labels, string(q[p+1:p+1+int(q[p])]))
		p += 1 + int(q[p])
	}
	if p+5 > len(q) {
		return nil
	}
	name, kind := strings.ToLower(strings.Join(labels, ".")), binary.BigEndian.Uint16(q[p+1:])
	i.mu.Lock()
	to, known := i.names[name]
	i.asked[name]++
	i.mu.Unlock()
	r := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:p+5]...)
	if !known {
		r[3] |= 3
		return r
	}
	owner := []byte{0xc0, 12}
	for _, t := range to {
		if alias, ok := strings.CutPrefix(t, "CNAME "); ok {
			var data []byte
			for _, l := range strings.Split(alias, ".") {
				data = append(append(data, byte(len(l))), l...)
			}
			data = append(data, 0)
			r = record(append(r, owner...), 5, data)
			owner = data
			r[7]++
			continue
		}
		a := netip.MustParseAddr(t)
		if a.Is4() && kind == 1 {
			r = record(append(r, owner...), 1, a.AsSlice())
			r[7]++
		}
		if a.Is6() && kind == 28 {
			r = record(append(r, owner...), 28, a.AsSlice())
			r[7]++
		}
	}
	return r
}

func record(b []byte, kind uint16, data []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, kind)
	b = append(b, 0, 1, 0, 0, 0, 30) // class IN, for 30 s
	return append(binary.BigEndian.AppendUint16(b, uint16(len(data))), data...)
}

// startBehind starts polisd on the test's host.
func (i *internet) startBehind(network, rest string) *daemon {
	i.t.Helper()
	dir := i.t.TempDir()
	file := dir + "/resolv.conf"
	require.NoError(i.t, os.WriteFile(file, []byte("nameserver "+dnsAddr+"\n"), 0o644))
	return startDaemon(i.t, options{netns: i.host, config: fmt.Sprintf("[network]\npool = \"10.236.0.0/16\"\nresolv_conf = %q\n%s\n%s", file, network, rest)})
}
