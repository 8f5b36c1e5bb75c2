package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/net/netutil"
)

// maxConns is the most connections at a time.
const maxConns = 16

// Server serves the text at /metrics of a loopback address, to every user of the machine. Set the
// fields, then Open; Close ends it.
type Server struct {
	// Addr must be a loopback address (ParseAddr).
	Addr    netip.AddrPort
	Metrics *Metrics
	Log     *slog.Logger

	listener net.Listener
	server   *http.Server
	done     chan struct{}
}

// ParseAddr reads an address and port that only programs of this machine can reach.
func ParseAddr(s string) (netip.AddrPort, error) {
	at, err := netip.ParseAddrPort(s)
	switch {
	case err != nil:
		return at, fmt.Errorf("%q is not an address and port", s)
	case !at.Addr().IsLoopback() || at.Addr().Zone() != "":
		return at, fmt.Errorf("%s is not a loopback address: the metrics have the names of agents, and no password protects them", at.Addr())
	}
	return at, nil
}

// Open listens and begins to serve.
func (s *Server) Open(ctx context.Context) error {
	if _, err := ParseAddr(s.Addr.String()); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(ctx, "tcp", s.Addr.String())
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	s.listener, s.done = netutil.LimitListener(l, maxConns), make(chan struct{})
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 2 * gatherTime, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug)}
	go func() {
		defer close(s.done)
		if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.Log.Error("metrics port closed", "op", "metrics", "err", err)
		}
	}()
	return nil
}

// Listening is the address it listens on.
func (s *Server) Listening() netip.AddrPort { return s.listener.Addr().(*net.TCPAddr).AddrPort() }

// Close ends the server and its connections.
func (s *Server) Close() error {
	err := s.server.Close()
	<-s.done
	return err
}

// ServeHTTP answers GET and HEAD of /metrics. A request whose Host is a name is refused: a web page
// whose name leads to this address must not read the metrics.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !local(r.Host):
		http.Error(w, "use the address of the port, not a name", http.StatusMisdirectedRequest)
		return
	case r.URL.Path != "/metrics":
		http.Error(w, "the metrics are at /metrics", http.StatusNotFound)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the metrics can only be read", http.StatusMethodNotAllowed)
		return
	}
	text, err := s.Metrics.Text(r.Context())
	if err != nil {
		s.Log.Error("metrics not collected", "op", "metrics", "err", err)
		http.Error(w, "the metrics cannot be collected; see the log of polisd", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", ContentType)
	_, _ = w.Write(text) //nolint:errcheck // the client left
}

// local reports whether a Host header is a loopback address, or "localhost".
func local(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	addr, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && addr.IsLoopback()
}
