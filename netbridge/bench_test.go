package netbridge

import (
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// What an agent's network costs, and how many there are already.
func BenchmarkEnsureAndRemove(b *testing.B) {
	for _, agents := range []int{0, 20} {
		b.Run(fmt.Sprintf("beside-%d", agents), func(b *testing.B) {
			br := newBridge(b)
			for i := range agents {
				_, err := br.Ensure(b.Context(), fmt.Sprintf("other-%d", i))
				require.NoError(b, err)
			}
			for b.Loop() {
				_, err := br.Ensure(b.Context(), "claude")
				require.NoError(b, err)
				b.StopTimer()
				require.NoError(b, br.Remove(b.Context(), "claude"))
				b.StartTimer()
			}
		})
	}
}

func BenchmarkEnsureAgain(b *testing.B) {
	br := newBridge(b)
	for b.Loop() {
		_, err := br.Ensure(b.Context(), "claude")
		require.NoError(b, err)
	}
}

func BenchmarkListeners(b *testing.B) {
	br := newBridge(b)
	_, ns := ensure(b, br, "claude")
	listen(b, ns, "127.0.0.1:3000", "x")
	for b.Loop() {
		_, err := ns.Listeners(b.Context())
		require.NoError(b, err)
	}
}

// ways are the two roads to the same server: by the map, and by a socket made
// inside the namespace.
func ways(b *testing.B) map[string]func() (net.Conn, error) {
	br := newBridge(b)
	ep, ns := ensure(b, br, "claude")
	echo(b, ns, "127.0.0.1:3000")
	f := forward(b, ns, ep, 3000)
	return map[string]func() (net.Conn, error){
		"forwarded": func() (net.Conn, error) { return net.Dial("tcp", f.Addr().String()) },
		"direct":    func() (net.Conn, error) { return ns.Dial(b.Context(), "tcp", "127.0.0.1:3000") },
	}
}

func BenchmarkConnect(b *testing.B) {
	for name, dial := range ways(b) {
		b.Run(name, func(b *testing.B) {
			buf := make([]byte, 1)
			for b.Loop() {
				c, err := dial()
				require.NoError(b, err)
				_, err = c.Write(buf)
				require.NoError(b, err)
				_, err = io.ReadFull(c, buf)
				require.NoError(b, err)
				require.NoError(b, c.(*net.TCPConn).SetLinger(0)) // no TIME_WAIT
				require.NoError(b, c.Close())
			}
		})
	}
}

func BenchmarkThroughput(b *testing.B) {
	for name, dial := range ways(b) {
		b.Run(name, func(b *testing.B) {
			c, err := dial()
			require.NoError(b, err)
			defer c.Close()
			out, in := make([]byte, 256<<10), make([]byte, 256<<10)
			b.SetBytes(int64(len(out)))
			for b.Loop() {
				done := make(chan error, 1)
				go func() {
					_, err := c.Write(out)
					done <- err
				}()
				_, err = io.ReadFull(c, in)
				require.NoError(b, err)
				require.NoError(b, <-done)
			}
		})
	}
}
