package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"polis/daemon/gateway/access"
	"polis/daemon/gateway/budget"
)

// Codes of the answers of the gateway to requests for services.
const (
	CodeServiceRequest = "SERVICE_REQUEST_REFUSED"
	CodeServiceBusy    = "SERVICE_ENDPOINT_BUSY"
	CodeServiceFailed  = "SERVICE_FAILED"
	CodeServiceRate    = "SERVICE_RATE_LIMITED"
)

// maxWebBody bounds the body of a request to a service, in bytes. It is not kept in memory.
const maxWebBody = 1 << 30

// A Call is one request of the agent to a service, for the audit.
type Call struct {
	Time    time.Time `json:"time"`
	Service string    `json:"service"`
	Method  string    `json:"method"`
	// Path is without the query, which can have what the agent keeps for itself.
	Path string `json:"path"`
	// Status is that of the answer. Code is that of the gateway's own answer.
	Status int    `json:"status"`
	Code   string `json:"code,omitempty"`
	// Sent and Received are bytes of the bodies.
	Sent     int64 `json:"sent"`
	Received int64 `json:"received"`
	Millis   int64 `json:"ms"`
}

// webExchange is one request to a service, and its answer.
type webExchange struct {
	g        *Gateway
	s        *webService
	path     access.Path
	query    url.Values
	endpoint string // how the agent's program addresses the service
	call     Call
	body     *bodyReader           // nil: it was refused before
	again    []byte                // the body, if it can be sent again
	fields   atomic.Pointer[error] // why the rest of a form was not sent; the transport reads it
	silent   *silenceTimer
}

// serveWeb relays a request to a service, and records the call.
func (g *Gateway) serveWeb(w http.ResponseWriter, r *http.Request, s *webService, escaped, endpoint string) {
	x := &webExchange{g: g, s: s, endpoint: endpoint, call: Call{Time: g.Now(), Service: s.config.Name, Method: shorten(r.Method, 32), Path: shorten(escaped, 512)}}
	defer x.done()
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	default:
		x.refuse(w, r, http.StatusTooManyRequests, CodeServiceBusy, fmt.Sprintf("%d requests of the agent are open, which is the limit", maxRequests))
		return
	}
	var err error
	if x.path, err = access.ParsePath(escaped); err == nil {
		x.call.Path = shorten(x.path.Plain, 512)
		x.query, err = webQuery(r.URL.RawQuery, x.allowed)
	}
	switch {
	case err != nil:
		x.refuse(w, r, http.StatusBadRequest, CodeServiceRequest, err.Error())
		return
	case !s.rules.Allow(r.Method, x.path):
		x.refuse(w, r, http.StatusForbidden, CodeServiceRequest,
			fmt.Sprintf("%s of this path is not allowed; an administrator can allow it (services.%s.paths)", x.call.Method, s.config.Name))
		return
	case (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.ContentLength != 0:
		x.refuse(w, r, http.StatusBadRequest, CodeServiceRequest, "this request has no body")
		return
	case r.ContentLength > maxWebBody:
		x.refuse(w, r, http.StatusRequestEntityTooLarge, CodeServiceRequest, fmt.Sprintf("a request may have %d MiB", maxWebBody>>20))
		return
	}
	if wait, ok := g.takeWeb(s); !ok {
		w.Header().Set("Retry-After", strconv.Itoa(seconds(wait)))
		x.refuse(w, r, http.StatusTooManyRequests, CodeServiceRate,
			fmt.Sprintf("the agent may send %d requests a minute to this service (services.%s.requests_per_minute)", s.config.RequestsPerMinute, s.config.Name))
		return
	}
	x.body = g.newBodyReader(w, r, maxWebBody)
	if r.Body, err = x.checkFields(r); err == nil {
		r.Body, err = x.keep(r, r.Body)
	}
	if err != nil {
		x.fail(w, r, err)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	// A service that neither takes the body nor answers would occupy one of the agent's requests for ever.
	x.silent = newSilenceTimer(g.silence+headersTime, func() { cancel(errSilent) })
	defer x.silent.stop()
	x.body.heard = x.silent.heard
	p := &httputil.ReverseProxy{Rewrite: x.rewrite, Transport: x, FlushInterval: -1, ModifyResponse: x.answered, ErrorHandler: x.fail, ErrorLog: quiet}
	p.ServeHTTP(w, r.WithContext(ctx))
}

// allowed reports whether a method is allowed for the path of the request.
func (x *webExchange) allowed(method string) bool { return x.s.rules.Allow(method, x.path) }

// takeWeb counts a request to a service by its limit for each minute, or returns how long to wait.
func (g *Gateway) takeWeb(s *webService) (wait time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	rate := g.webRates[s.config.Name]
	if rate == nil { // at most one for each service of the configuration
		rate = &budget.Rate{}
		g.webRates[s.config.Name] = rate
	}
	return rate.Take(g.Now(), s.config.RequestsPerMinute)
}

func (x *webExchange) rewrite(p *httputil.ProxyRequest) {
	out := p.Out
	out.URL = &url.URL{Scheme: x.s.url.Scheme, Host: x.s.url.Host, RawQuery: x.query.Encode()}
	x.path.Below(x.s.url.Path, out.URL)
	out.Host = ""
	out.Header = x.s.headers(p.In.Header)
	out.Trailer, out.TransferEncoding = nil, nil
}

func (x *webExchange) answered(resp *http.Response) error {
	x.call.Status = resp.StatusCode
	if resp.StatusCode >= 300 && resp.StatusCode < 400 || resp.Header.Get("Link") != "" {
		x.s.localize(resp.Header, x.endpoint)
	}
	if x.call.Method != http.MethodHead && resp.StatusCode != http.StatusNotModified {
		if err := decode(resp); err != nil {
			return err
		}
	}
	resp.Body = &answerBody{Reader: x.s.redact(resp.Body), Closer: resp.Body, x: x}
	x.silent.bound(x.g.silence)
	return nil
}

// fail answers a request that got no answer of the service.
func (x *webExchange) fail(w http.ResponseWriter, r *http.Request, err error) {
	if ferr := x.fields.Load(); ferr != nil {
		err = *ferr
	}
	if berr := x.body.failed(); berr != nil {
		err = berr
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		x.refuse(w, r, http.StatusRequestEntityTooLarge, CodeServiceRequest, fmt.Sprintf("a request may have %d MiB", maxWebBody>>20))
	case errors.Is(err, errBody):
		x.refuse(w, r, http.StatusBadRequest, CodeServiceRequest, errBody.Error())
	case errors.Is(err, access.ErrForm):
		x.refuse(w, r, http.StatusBadRequest, CodeServiceRequest, err.Error())
	case errors.Is(err, access.ErrField):
		x.refuse(w, r, http.StatusForbidden, CodeServiceRequest, fmt.Sprintf("%v; an administrator can allow it (services.%s.paths)", err, x.s.config.Name))
	case errors.Is(err, errUpgrade), errors.Is(err, errStatus), errors.Is(err, errCompressed):
		x.refuse(w, r, http.StatusBadGateway, CodeServiceFailed, err.Error())
	default:
		if r.Context().Err() == nil {
			x.g.Log.Warn("service not reached", "op", "service", "service", x.s.config.Name, "err", err)
		}
		x.refuse(w, r, http.StatusBadGateway, CodeServiceFailed, "the service was not reached; the administrator finds the reason in the log of the agent's shim")
	}
}

func (x *webExchange) refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	x.call.Status, x.call.Code = status, code
	refuseWeb(w, r, status, code, message)
}

func (x *webExchange) done() {
	if x.body != nil {
		x.call.Sent = x.body.n.Load()
	}
	x.call.Millis = x.g.Now().Sub(x.call.Time).Milliseconds()
	x.g.Called(x.call)
}

// refuseWeb writes an answer of the gateway itself in a form that programs show: npm shows `error`, clients
// of GitHub `message`, and git plain text.
func refuseWeb(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	text := "polis: " + message + " (" + code + ")"
	body, err := json.Marshal(map[string]string{"error": text, "message": text, "code": code})
	w.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(r.UserAgent(), "git/") || err != nil {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		body = []byte(text + "\n")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:errcheck // the agent's program left
}

// refuseUnknown answers a request for a service that the agent does not have.
func (g *Gateway) refuseUnknown(w http.ResponseWriter, r *http.Request, name string) {
	g.mu.Lock()
	var have []string
	for n := range g.web {
		have = append(have, n)
	}
	g.mu.Unlock()
	slices.Sort(have)
	what := "the agent has none"
	if len(have) > 0 {
		what = "it has " + strings.Join(have, ", ")
	}
	c := Call{Time: g.Now(), Service: shorten(name, 64), Method: shorten(r.Method, 32), Path: "/", Status: http.StatusNotFound, Code: CodeServiceRequest}
	g.Called(c)
	refuseWeb(w, r, http.StatusNotFound, CodeServiceRequest,
		fmt.Sprintf("service %q is not one of the agent's services (%s); an administrator can give it one (gateway.services)", c.Service, what))
}

// answerBody counts what the agent receives.
type answerBody struct {
	io.Reader
	io.Closer
	x *webExchange
}

// Read is part of io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.x.silent.heard()
	b.x.call.Received += int64(n)
	return n, err
}

// shorten bounds a text of the agent for the audit.
func shorten(s string, n int) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "..."
	}
	return s
}
