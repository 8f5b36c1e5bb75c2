package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"polis/daemon/api/wire"
	"polis/daemon/gateway/budget"
	"polis/daemon/gateway/provider"
)

// Codes of the gateway's own answers. Agents' programs show them as a part of the text.
const (
	CodeRequest = "MODEL_REQUEST_REFUSED"
	CodeModel   = "MODEL_NOT_ALLOWED"
	CodeBudget  = "MODEL_BUDGET_SPENT"
	CodeRate    = "MODEL_RATE_LIMITED"
	CodeShare   = "MODEL_BUDGET_UNKNOWN"
	CodeBusy    = "MODEL_ENDPOINT_BUSY"
	CodeService = "MODEL_SERVICE_FAILED"
	CodeReplay  = "MODEL_REPLAY_DIFFERS"
)

// ServeHTTP is part of http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	pw := newProgressWriter(w)
	defer pw.end(r.ContentLength != 0)
	w = pw
	if why := odd(r); why != "" {
		status := http.StatusBadRequest
		if why == otherProtocol {
			// Codex first tries a WebSocket, and continues without after this answer only.
			status = http.StatusUpgradeRequired
			w.Header().Set("Upgrade", "HTTP/1.1")
		}
		refuse(w, provider.Compatible, provider.Failure{Status: status, Code: CodeRequest, Message: why})
		return
	}
	raw, _, _ := strings.Cut(r.RequestURI, "?")
	if name, ok := namedHost(r.Host); ok {
		if web := g.webNamed(name); web != nil {
			g.serveWeb(w, r, web, raw, "http://"+r.Host)
		} else {
			g.refuseUnknown(w, r, name)
		}
		return
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(raw, "/"), "/")
	if web := g.webNamed(first); web != nil {
		g.serveWeb(w, r, web, "/"+rest, "http://"+r.Host+"/"+first)
		return
	}
	if why := oddModel(r); why != "" {
		refuse(w, provider.Compatible, provider.Failure{Status: http.StatusBadRequest, Code: CodeRequest, Message: why})
		return
	}
	name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	g.mu.Lock()
	s := g.services[name]
	g.mu.Unlock()
	if s == nil {
		refuse(w, provider.Compatible, provider.Failure{Status: http.StatusNotFound, Code: CodeRequest, Message: "there is no model service or other service of this agent at this path"})
		return
	}
	call, ok := s.kind.Match(r.Method, "/"+path)
	if !ok {
		refuse(w, s.kind, provider.Failure{Status: http.StatusNotFound, Code: CodeRequest, Message: "this method and path are not allowed"})
		return
	}
	if f := g.relay(w, r, s, call); f != nil {
		refuse(w, s.kind, *f)
	}
}

const otherProtocol = "the endpoint has no other protocol"

// odd returns what is wrong with the form of a request; "" if nothing is. Programs that use the
// endpoint send none of these.
func odd(r *http.Request) string {
	_, named := namedHost(r.Host)
	switch {
	case r.URL.IsAbs() || r.URL.Host != "" || r.Method == http.MethodConnect || r.URL.Opaque != "" || !strings.HasPrefix(r.RequestURI, "/"):
		return "the endpoint is no proxy"
	case !named && !provider.Loopback(hostOf(r.Host)):
		// A page of the web in a browser of the agent would come with its own name.
		return "the Host header must be that of the endpoint"
	case r.Header.Get("Upgrade") != "" || strings.Contains(strings.ToLower(strings.Join(r.Header["Connection"], ",")), "upgrade"):
		return otherProtocol
	case r.Header.Get("Sec-Fetch-Site") == "cross-site":
		return "the endpoint serves no web pages of others"
	}
	return ""
}

// oddModel returns what is wrong with the form of a request for a model.
func oddModel(r *http.Request) string {
	switch {
	case r.URL.RawPath != "" || strings.Contains(r.URL.Path, "//") || strings.Contains(r.URL.Path, "/.") || strings.ContainsAny(r.URL.Path, "\\%\x00"):
		return "the path must be plain"
	case slices.ContainsFunc(r.Header["Content-Encoding"], func(v string) bool { return v != "" && !strings.EqualFold(v, "identity") }):
		return "the body must not be compressed"
	}
	return ""
}

func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return hostport
}

// namedHost returns the service that a Host header names.
func namedHost(hostport string) (string, bool) {
	return strings.CutSuffix(strings.ToLower(hostOf(hostport)), wire.ServiceDomain)
}

func (g *Gateway) webNamed(name string) *webService {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.web[name]
}

// relay sends a request to a service and the answer to the agent. It returns a failure if nothing was
// written yet.
func (g *Gateway) relay(w http.ResponseWriter, r *http.Request, s *service, call provider.Call) *provider.Failure {
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	default:
		return &provider.Failure{Status: http.StatusTooManyRequests, Code: CodeBusy, RetryAfter: 1,
			Message: fmt.Sprintf("%d requests of the agent are open, which is the limit", maxRequests)}
	}
	body, release, f := g.readBody(w, r, call)
	defer release()
	if f != nil {
		return f
	}
	x := &exchange{g: g, s: s, call: call, began: g.Now(), work: g.Work(agentEnd(r)), retry: retries(r)}
	if call.Body {
		req, err := provider.ReadBody(call, body)
		if err != nil {
			return &provider.Failure{Status: http.StatusBadRequest, Code: CodeRequest, Message: err.Error()}
		}
		x.model, x.stream, x.body = req.Model, req.Stream, req.Body
	} else {
		x.model = call.Model
	}
	if x.model != "" && !budget.Match(s.config.Allow, x.model) {
		x.refused()
		return &provider.Failure{Status: http.StatusForbidden, Code: CodeModel,
			Message: fmt.Sprintf("model %s is not among those allowed: %s", x.model, strings.Join(s.config.Allow, ", "))}
	}
	if re := g.replaying(); re != nil {
		return re.answer(w, x)
	}
	if !x.work.Over {
		defer g.waiting.begin(g.Now)()
	}
	u, f := g.admit(r.Context(), s, x.work, call.Format != provider.FormatNone)
	if f != nil {
		x.refused()
		return f
	}
	x.turn = u
	defer u.end(false)
	if s.config.Record && g.Recorder != nil && !x.work.Over {
		x.rec = g.Recorder.Begin(x.work.Task, x.recorded())
	}
	defer g.sending()()
	x.send(w, r)
	return nil
}

// agentEnd returns the agent's end of the connection of a request.
func agentEnd(r *http.Request) netip.AddrPort {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil { // no server of net/http has another form
		return netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	}
	return from
}

// admit decides by the budget, and waits for the agent's turn if the service is limited. tokens: the request
// uses some.
func (g *Gateway) admit(ctx context.Context, s *service, w Work, tokens bool) (*turn, *provider.Failure) {
	for {
		if f := g.withinBudget(ctx, w, tokens); f != nil {
			return nil, f
		}
		u, f := g.takeTurn(ctx, s)
		if f != nil {
			return nil, f
		}
		g.mu.Lock()
		spent := tokens && (g.state(w).Spent() || g.lacksShare()) // while it waited
		wait, ok := time.Duration(0), true
		if !spent {
			wait, ok = g.rate.Take(g.Now(), g.budget.RequestsPerMinute)
		}
		perMinute := g.budget.RequestsPerMinute
		g.mu.Unlock()
		switch {
		case spent:
			u.cancel()
		case !ok:
			u.cancel()
			return nil, &provider.Failure{Status: http.StatusTooManyRequests, Code: CodeRate, RetryAfter: seconds(wait), Message: fmt.Sprintf("the agent may send %d requests a minute", perMinute)}
		default:
			return u, nil
		}
	}
}

func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// readBody reads the body of a request, bounded in size and time. release returns what it occupies of
// the bound for all bodies.
func (g *Gateway) readBody(w http.ResponseWriter, r *http.Request, call provider.Call) (body []byte, release func(), f *provider.Failure) {
	var held int64
	release = func() { g.bodies.Release(held) }
	if !call.Body {
		if r.ContentLength != 0 {
			return nil, release, &provider.Failure{Status: http.StatusBadRequest, Code: CodeRequest, Message: "this request has no body"}
		}
		return nil, release, nil
	}
	in := g.newBodyReader(w, r, maxBody)
	buf := make([]byte, 0, min(max(r.ContentLength, 0)+1, 64<<10))
	for {
		if len(buf) == cap(buf) {
			more := int64(max(cap(buf), 4<<10))
			if !g.bodies.TryAcquire(more) {
				return nil, release, &provider.Failure{Status: http.StatusServiceUnavailable, Code: CodeBusy, RetryAfter: 1, Message: "too many large requests of the agent are open"}
			}
			held += more
			bigger := make([]byte, len(buf), len(buf)+int(more))
			copy(bigger, buf)
			buf = bigger
		}
		n, err := in.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, release, &provider.Failure{Status: http.StatusRequestEntityTooLarge, Code: CodeRequest, Message: fmt.Sprintf("a request may have %d MiB", maxBody>>20)}
		}
		if err != nil {
			return nil, release, &provider.Failure{Status: http.StatusBadRequest, Code: CodeRequest, Message: errBody.Error()}
		}
	}
	return buf, release, nil
}

// retries reports whether a request repeats another one, as the providers' libraries say.
func retries(r *http.Request) bool {
	n, err := strconv.Atoi(r.Header.Get("X-Stainless-Retry-Count"))
	return err == nil && n > 0
}

// refuse writes an answer of the gateway itself.
func refuse(w http.ResponseWriter, k provider.Kind, f provider.Failure) {
	w.Header().Set("Content-Type", "application/json")
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
	} else {
		w.Header().Set("X-Should-Retry", "false") // the providers' libraries heed it
	}
	w.WriteHeader(f.Status)
	_, _ = w.Write(k.Body(f)) //nolint:errcheck // the agent's program left
}
