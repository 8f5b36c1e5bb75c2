package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"sync"
	"time"

	"polis/daemon/api"
)

const (
	maxConns     = 1024 // of clients, at a time
	maxPerAgent  = 256  // requests of one agent, at a time
	maxHeader    = 64 << 10
	maxAnswer    = 256 << 10 // header of an answer, in bytes
	headerTime   = 10 * time.Second
	idleTime     = time.Minute
	answerTime   = 5 * time.Minute // until the header of an answer
	rememberTime = 10 * time.Second
)

// Agents is what the proxy knows of agents.
type Agents interface {
	// Web lists the TCP ports an agent listens on, those to try first first. An
	// agent that is not, or does not run, is an error with a code.
	Web(ctx context.Context, agent string) ([]int, error)
	// Names lists the agents that run.
	Names() []string
	// Dial connects to a port inside an agent, and nowhere else.
	Dial(ctx context.Context, agent string, port int) (net.Conn, error)
}

// Proxy is the proxy. Set the fields, then Open; Close ends it.
type Proxy struct {
	// Addr is where it listens.
	Addr   netip.AddrPort
	Agents Agents
	Log    *slog.Logger

	listener *limited
	server   *http.Server
	h1, h2   *http.Transport
	done     chan struct{}
	serving  sync.RWMutex // read by every request; Close waits for them

	mu    sync.Mutex
	busy  map[string]int     // requests, by agent
	first map[string]firstOf // by agent
}

type firstOf struct {
	port  int
	until time.Time
}

// Open listens and begins to serve.
func (p *Proxy) Open(ctx context.Context) error {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(ctx, "tcp", p.Addr.String())
	if err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	p.prepare()
	p.listener, p.done = limit(l, maxConns), make(chan struct{})
	go func() {
		defer close(p.done)
		if err := p.server.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) {
			p.Log.Error("proxy ended", "op", "proxy", "err", err)
		}
	}()
	return nil
}

// Listening is the address it listens on.
func (p *Proxy) Listening() netip.AddrPort { return p.listener.Addr().(*net.TCPAddr).AddrPort() }

// prepare makes everything but the listener.
func (p *Proxy) prepare() {
	p.busy, p.first = map[string]int{}, map[string]firstOf{}
	one, two := new(http.Protocols), new(http.Protocols)
	one.SetHTTP1(true)
	two.SetUnencryptedHTTP2(true)
	p.h1, p.h2 = p.transport(one), p.transport(two)
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		Protocols: both, ErrorLog: slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug)}
}

func (p *Proxy) transport(protocols *http.Protocols) *http.Transport {
	return &http.Transport{
		Proxy: nil, // never by an environment
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			t, ok := parseAuthority(addr)
			if !ok {
				return nil, fmt.Errorf("%q is no port of an agent", addr)
			}
			return p.Agents.Dial(ctx, t.agent, t.port)
		},
		Protocols: protocols, DisableCompression: true, MaxIdleConns: 64, MaxIdleConnsPerHost: 8, MaxConnsPerHost: maxPerAgent,
		IdleConnTimeout: 30 * time.Second, ResponseHeaderTimeout: answerTime, ExpectContinueTimeout: time.Second, MaxResponseHeaderBytes: maxAnswer,
	}
}

// Close stops to listen and cuts what is open: nothing here outlives polisd.
func (p *Proxy) Close() error {
	err := p.server.Close()
	<-p.done
	p.listener.cut()
	p.serving.Lock()
	defer p.serving.Unlock()
	p.h1.CloseIdleConnections()
	p.h2.CloseIdleConnections()
	return err
}

// ServeHTTP sends a request where its Host says.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.serving.RLock()
	defer p.serving.RUnlock()
	t, k := parseHost(r.Host)
	switch k {
	case foreign:
		p.refuse(w, r, http.StatusMisdirectedRequest, "this is the proxy of polis, which answers to names below "+Domain, false)
		return
	case home:
		status := http.StatusOK
		if r.URL.Path != "/" {
			status = http.StatusNotFound
		}
		p.refuse(w, r, status, "agents and their web servers", true)
		return
	case unknown:
		p.refuse(w, r, http.StatusNotFound, "no agent can have that name: AGENT."+Domain+" or PORT.AGENT."+Domain, true)
		return
	}
	if !p.enter(t.agent) {
		w.Header().Set("Retry-After", "1")
		p.refuse(w, r, http.StatusServiceUnavailable, fmt.Sprintf("agent %s has %d requests by the proxy at a time: more is not let in", t.agent, maxPerAgent), false)
		return
	}
	defer p.leave(t.agent)
	if t.port == 0 {
		port, err := p.findFirst(r.Context(), t.agent)
		if err != nil {
			p.refuse(w, r, api.CodeOf(err).Status(), err.Error(), true)
			return
		}
		t.port = port
	}
	p.pass(w, r, t)
}

// pass is the reverse proxy for one request.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, t target) {
	transport := p.h1
	if r.ProtoMajor == 2 {
		transport = p.h2 // who speaks it unasked expects it of the server
	}
	rp := httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		ErrorLog: slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug),
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.Scheme, pr.Out.URL.Host = "http", t.authority()
			pr.Out.Host = pr.In.Host
			pr.SetXForwarded()
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				return // the client does not wait for an answer any more
			}
			p.forget(t)
			p.Log.Debug("request failed", "op", "proxy", "agent", t.agent, "port", t.port, "err", err)
			status := http.StatusBadGateway
			if code := api.CodeOf(err); code != api.CodeInternal {
				status = code.Status()
			}
			p.refuse(w, r, status, fmt.Sprintf("port %d of agent %s does not answer", t.port, t.agent), true)
		},
	}
	rp.ServeHTTP(w, r)
}

func (p *Proxy) enter(agent string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy[agent] >= maxPerAgent {
		return false
	}
	p.busy[agent]++
	return true
}

func (p *Proxy) leave(agent string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy[agent]--; p.busy[agent] == 0 {
		delete(p.busy, agent)
	}
}

// findFirst finds the first port of an agent that speaks HTTP, and remembers
// it for a while.
func (p *Proxy) findFirst(ctx context.Context, agent string) (int, error) {
	now := time.Now()
	p.mu.Lock()
	f, ok := p.first[agent]
	p.mu.Unlock()
	if ok && now.Before(f.until) {
		return f.port, nil
	}
	ports, err := p.Agents.Web(ctx, agent)
	if err != nil {
		return 0, err
	}
	for _, port := range ports {
		if len(ports) > 1 && !p.speaksHTTP(ctx, agent, port) {
			continue
		}
		p.mu.Lock()
		p.first[agent] = firstOf{port, now.Add(rememberTime)}
		p.mu.Unlock()
		return port, nil
	}
	return 0, api.Errorf(api.CodeNotFound, "agent %s has no web server now", agent)
}

// forget has the first web server of an agent looked for again.
func (p *Proxy) forget(t target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first[t.agent].port == t.port {
		delete(p.first, t.agent)
	}
}

// speaksHTTP asks a server something that changes nothing (RFC 9110, 9.3.7):
// whatever a web server answers begins so.
func (p *Proxy) speaksHTTP(ctx context.Context, agent string, port int) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := p.Agents.Dial(ctx, agent, port)
	if err != nil {
		return false
	}
	defer c.Close() //nolint:errcheck // it was only read
	deadline, _ := ctx.Deadline()
	if c.SetDeadline(deadline) != nil {
		return false
	}
	if _, err := io.WriteString(c, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		return false
	}
	head := make([]byte, len("HTTP/"))
	_, err = io.ReadFull(c, head)
	return err == nil && string(head) == "HTTP/"
}
