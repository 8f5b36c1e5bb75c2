package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"polis/daemon/api/wire"
	"polis/daemon/gateway/rawconn"
)

// upstream is the way to one service.
type upstream struct {
	proxy     wire.Proxy
	url       *url.URL
	secrets   []string  // that must not be in an answer
	forms     []*search // of each of them
	transport *http.Transport
}

func newUpstream(u *url.URL, proxy wire.Proxy, secrets []string) *upstream {
	// ProxyFunc never returns a proxy for the host's loopback.
	find := (&httpproxy.Config{HTTPProxy: proxy.HTTP, HTTPSProxy: proxy.HTTPS, NoProxy: proxy.No}).ProxyFunc()
	// The longest first: one can have the form of another one as a part.
	secrets = slices.SortedStableFunc(slices.Values(secrets), func(a, b string) int { return len(b) - len(a) })
	var all []*search
	for _, s := range secrets {
		all = append(all, newSearch(forms(s)))
	}
	return &upstream{proxy: proxy, url: u, secrets: secrets, forms: all, transport: &http.Transport{
		Proxy:       func(r *http.Request) (*url.URL, error) { return find(r.URL) },
		DialContext: dial,
		// The verification is Go's own: the host's certificates, the name of the URL.
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        90 * time.Second,
		ResponseHeaderTimeout:  headersTime,
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true,
	}}
}

// dial connects to a service or a proxy.
func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return rawconn.New(c), nil
}

var (
	errRedirect = errors.New("the service answered with a redirect, which is not followed")
	errUpgrade  = errors.New("the service answered with another protocol")
	errStatus   = errors.New("the service answered with a status that no answer has")
)

// bare is a context without values: what others attached to a request, such as hooks for interim
// answers, does not reach the connection to the service.
type bare struct{ context.Context }

func (bare) Value(any) any { return nil }

// settle waits until the transport has read all that came on a connection with what it has read, before a request gets it. The
// transport closes a connection on which an answer comes that it did not ask for, but in a goroutine of its own: a
// request that is sooner would get that answer. When it is closed, the transport sends the request on another one.
func settle(ctx context.Context, c net.Conn) {
	if t, ok := c.(*tls.Conn); ok && t.ConnectionState().NegotiatedProtocol == "h2" {
		return // each answer has the number of its request
	}
	for {
		t, ok := c.(*tls.Conn) // one in another, if the proxy has TLS, too
		if !ok {
			break
		}
		c = t.NetConn()
	}
	if raw, ok := c.(*rawconn.Conn); ok {
		raw.AwaitReader(ctx)
	}
}

// send sends a request to the service. It follows no redirect, and removes the headers with a secret from
// the answer.
func (u *upstream) send(r *http.Request) (*http.Response, error) {
	ctx := httptrace.WithClientTrace(bare{r.Context()}, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		settle(r.Context(), got.Conn)
	}})
	resp, err := u.transport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return nil, &upstreamError{u, err}
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		_ = resp.Body.Close() //nolint:errcheck // nothing of it is used
		return nil, errUpgrade
	}
	if resp.StatusCode < 200 { // an interim answer, which the transport does not return, or a number that none has
		_ = resp.Body.Close() //nolint:errcheck // nothing of it is used
		return nil, errStatus
	}
	clean := *resp // a trailer that follows the body is written into the original
	clean.Trailer = nil
	clean.Header = http.Header{}
	for name, values := range resp.Header {
		if dropped[name] || u.leaks(name) || slices.ContainsFunc(values, u.leaks) {
			continue
		}
		clean.Header[name] = values
	}
	return &clean, nil
}

// upstreamError is an error of the way to a service. Its text is for the log, and can have what the service sent in
// place of an answer: it is without the secrets.
type upstreamError struct {
	u   *upstream
	err error
}

func (e *upstreamError) Error() string {
	text := []byte(e.err.Error())
	for _, f := range e.u.forms {
		f.mask(text, false)
	}
	return string(text)
}

// Unwrap is for errors.Is.
func (e *upstreamError) Unwrap() error { return e.err }

// dropped are answer headers that are about the connection to the service.
var dropped = map[string]bool{"Set-Cookie": true, "Alt-Svc": true, "Strict-Transport-Security": true, "Trailer": true,
	"Www-Authenticate": true, "Access-Control-Allow-Origin": true, "Access-Control-Allow-Credentials": true}

// leaks reports whether a header's name or value has a secret, also as a part of an address.
func (u *upstream) leaks(v string) bool {
	plain, err := url.PathUnescape(v)
	if err != nil {
		plain = ""
	}
	return slices.ContainsFunc(u.secrets, func(s string) bool {
		lower := strings.ToLower(s)
		return strings.Contains(strings.ToLower(v), lower) || strings.Contains(strings.ToLower(plain), lower)
	}) || slices.ContainsFunc(u.forms, func(s *search) bool {
		return slices.ContainsFunc(s.forms, func(f []byte) bool { return strings.Contains(v, string(f)) })
	})
}

// redact returns an answer's body without the secrets.
func (u *upstream) redact(r io.Reader) io.Reader {
	for _, f := range u.forms {
		r = newRedactor(r, f)
	}
	return r
}
