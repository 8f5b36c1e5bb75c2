package netbridge

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// way is how a client on the host reaches a server in an agent.
type way struct {
	name string
	addr string
}

// ways are a connection over the agent's veth to its own address, a port map,
// and socat from a port of the host to the same address, which is the least
// that it can do. The server is one for all, on 0.0.0.0.
func ways(b *testing.B) []way {
	br := newBridge(b)
	ep, ns := ensure(b, br, "claude")
	l, err := ns.Listen(b.Context(), "tcp", "0.0.0.0:3000")
	require.NoError(b, err)
	b.Cleanup(func() { _ = l.Close() })
	go serveBench(l)
	f := forward(b, ns, ep, 3000)
	return []way{{"veth", at(ep.Addr, 3000)}, {"map", f.Addr().String()}, {"socat", socat(b, at(ep.Addr, 3000))}}
}

// serveBench answers a line "N\n" with N bytes, and one byte with itself.
func serveBench(l net.Listener) {
	chunk := bytes.Repeat([]byte("x"), 256<<10)
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			buf := make([]byte, 32)
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			left, err := strconv.Atoi(string(bytes.TrimSpace(buf[:n])))
			if err != nil {
				_, _ = c.Write(buf[:n])
				return
			}
			for left > 0 {
				n, err := c.Write(chunk[:min(left, len(chunk))])
				if err != nil {
					return
				}
				left -= n
			}
		}()
	}
}

// socat starts one, and returns where it listens.
func socat(b *testing.B, to string) string {
	path, err := exec.LookPath("socat")
	if err != nil {
		b.Skip("socat is not installed: scripts/setup bench")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	addr := l.Addr().String()
	require.NoError(b, l.Close())
	_, port, err := net.SplitHostPort(addr)
	require.NoError(b, err)
	cmd := exec.Command(path, "TCP4-LISTEN:"+port+",bind=127.0.0.1,fork,reuseaddr,backlog=128", "TCP4:"+to)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // with those it forked
		_ = cmd.Wait()
	})
	require.Eventually(b, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
	return addr
}

// once reaches the server, asks and reads the answer to its end.
func once(b *testing.B, w way, ask string) (bytes int64) {
	c, err := net.Dial("tcp", w.addr)
	require.NoError(b, err, w.name)
	defer c.Close()
	_, err = io.WriteString(c, ask)
	require.NoError(b, err)
	n, err := io.Copy(io.Discard, struct{ io.Reader }{c}) // read(2), not splice
	require.NoError(b, err)
	return n
}

func ownCPU(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(d []float64) float64 {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}

// interleaved measures every way in each of so many rounds and returns their
// figures by name; the order changes from round to round.
func interleaved(rounds int, all []way, measure func(way) float64) map[string][]float64 {
	out := map[string][]float64{}
	for i := range rounds {
		for j := range all {
			w := all[(i+j)%len(all)]
			out[w.name] = append(out[w.name], measure(w))
		}
	}
	return out
}

func ratios(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] / b[i]
	}
	return out
}

// BenchmarkPortMap compares a port map with a direct connection over the veth
// and with socat, interleaved; figures are medians of the rounds' ratios, and
// microseconds. To be run with -benchtime 1x.
func BenchmarkPortMap(b *testing.B) {
	all := ways(b)
	b.Run("throughput", func(b *testing.B) {
		const size = 256 << 20
		for b.Loop() {
			cpu := map[string][]float64{}
			got := interleaved(11, all, func(w way) float64 {
				t, before := time.Now(), ownCPU(b)
				require.EqualValues(b, size, once(b, w, fmt.Sprintf("%d\n", size)))
				cpu[w.name] = append(cpu[w.name], float64((ownCPU(b)-before).Milliseconds())*1e9/size)
				return size / time.Since(t).Seconds() / 1e6
			})
			// Of client, server and map, which are all of this process; socat is not.
			b.ReportMetric(median(cpu["veth"]), "veth-cpu-ms/GB")
			b.ReportMetric(median(cpu["map"]), "map-cpu-ms/GB")
			for _, w := range all {
				b.ReportMetric(median(got[w.name]), w.name+"-MB/s")
			}
			b.ReportMetric(median(ratios(got["map"], got["veth"])), "map/veth")
			b.ReportMetric(median(ratios(got["map"], got["socat"])), "map/socat")
		}
	})
	b.Run("connect", func(b *testing.B) {
		for b.Loop() {
			got := interleaved(21, all, func(w way) float64 {
				const n = 100
				took := make([]float64, n)
				for i := range took {
					t := time.Now()
					require.EqualValues(b, 1, once(b, w, "?"))
					took[i] = float64(time.Since(t).Nanoseconds()) / 1e3
				}
				return median(took)
			})
			for _, w := range all {
				b.ReportMetric(median(got[w.name]), w.name+"-us")
			}
			added := make([]float64, len(got["map"]))
			for i := range added {
				added[i] = got["map"][i] - got["veth"][i]
			}
			b.ReportMetric(median(added), "added-us")
		}
	})
}
