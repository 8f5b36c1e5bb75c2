package rawconn

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/nettest"
)

// pair returns both ends of a TCP connection over loopback.
func pair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	plain, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer plain.Close()
	ln := Listener(plain)
	dialed, err := net.Dial("tcp4", ln.Addr().String())
	require.NoError(t, err)
	b, err = ln.Accept()
	require.NoError(t, err)
	require.IsType(t, &Conn{}, b)
	t.Cleanup(func() { dialed.Close(); b.Close() })
	return New(dialed), b
}

func TestItBehavesAsAConnectionOfPackageNet(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		c1, c2 = pair(t)
		return c1, c2, func() { c1.Close(); c2.Close() }, nil
	})
}

func TestALargeWriteArrivesWhole(t *testing.T) {
	a, b := pair(t)
	sent := make([]byte, 16<<20)
	_, _ = rand.Read(sent)
	failed := make(chan error, 1)
	go func() {
		n, err := a.Write(sent)
		if err == nil && n != len(sent) {
			err = io.ErrShortWrite
		}
		failed <- errors.Join(err, a.Close())
	}()
	got, err := io.ReadAll(b)
	require.NoError(t, err)
	require.NoError(t, <-failed)
	require.True(t, bytes.Equal(sent, got))
}

func TestErrorsAreThoseOfPackageNet(t *testing.T) {
	a, b := pair(t)
	n, err := a.Read(nil)
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = a.Write(nil)
	require.NoError(t, err)
	require.Zero(t, n)

	require.NoError(t, a.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err = a.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
	require.Contains(t, err.Error(), "read tcp 127.0.0.1:")
	require.NotContains(t, err.Error(), "raw-read")

	// A reset: what was not read makes the kernel send one.
	_, err = a.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, b.(*Conn).Conn.(*net.TCPConn).SetLinger(0))
	require.NoError(t, b.Close())
	require.NoError(t, a.SetReadDeadline(time.Time{}))
	_, err = a.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = a.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EPIPE)
	require.NoError(t, a.Close())
	_, err = a.Read(make([]byte, 1))
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestAServerAndAClientWork(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	s.Listener = Listener(s.Listener)
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	transport := s.Client().Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2 = true
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return New(c), nil
	}
	defer transport.CloseIdleConnections()
	want := bytes.Repeat([]byte("token "), 100_000)
	resp, err := (&http.Client{Transport: transport}).Post(s.URL, "text/plain", bytes.NewReader(want))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, 2, resp.ProtoMajor)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestReadsAndWritesAllocateNothing(t *testing.T) {
	a, b := pair(t)
	p := make([]byte, 100)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = a.Write(p)
		_, _ = io.ReadFull(b, p)
	}))
}
