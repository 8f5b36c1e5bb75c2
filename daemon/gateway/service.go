package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpproxy"

	"polis/daemon/gateway/provider"
	"polis/daemon/shim/wire"
)

// service is one model service as an agent uses it.
type service struct {
	config    wire.Model
	proxy     wire.Proxy
	kind      provider.Kind
	url       *url.URL
	transport *http.Transport
	until     atomic.Int64 // unix nanoseconds: requests wait until then
}

func newService(c wire.Model, proxy wire.Proxy) (*service, error) {
	s := &service{config: c, proxy: proxy, kind: provider.Kind(c.Kind)}
	if !slices.Contains(provider.Kinds(), s.kind) {
		return nil, fmt.Errorf("kind = %q: must be one of %q", c.Kind, provider.Kinds())
	}
	if err := provider.CheckKey(c.Key); err != nil {
		return nil, err
	}
	var err error
	if s.url, err = provider.ParseURL(c.URL); err != nil {
		return nil, err
	}
	// NewProxy never returns a proxy for the host's loopback.
	find := (&httpproxy.Config{HTTPProxy: proxy.HTTP, HTTPSProxy: proxy.HTTPS, NoProxy: proxy.No}).ProxyFunc()
	s.transport = &http.Transport{
		Proxy:       func(r *http.Request) (*url.URL, error) { return find(r.URL) },
		DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		// The verification is Go's own: the host's certificates, the name of the URL.
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        90 * time.Second,
		ResponseHeaderTimeout:  10 * time.Minute,
		MaxResponseHeaderBytes: 256 << 10,
		DisableCompression:     true,
	}
	s.pause(c.PausedUntil)
	return s, nil
}

// same reports whether o is the same service, whatever it pauses for.
func (s *service) same(o *service) bool {
	a, b := s.config, o.config
	a.PausedUntil, b.PausedUntil = time.Time{}, time.Time{}
	return s.proxy == o.proxy && reflect.DeepEqual(a, b)
}

func (s *service) paused() time.Time {
	if n := s.until.Load(); n != 0 {
		return time.Unix(0, n)
	}
	return time.Time{}
}

// pause extends the pause, and never shortens it.
func (s *service) pause(until time.Time) {
	if until.IsZero() {
		return
	}
	for n := until.UnixNano(); ; {
		old := s.until.Load()
		if old >= n || s.until.CompareAndSwap(old, n) {
			return
		}
	}
}

var (
	errRedirect = errors.New("the service answered with a redirect, which is not followed")
	errUpgrade  = errors.New("the service answered with another protocol")
)

// bare is a context without values: what others attached to a request, such as hooks for interim
// answers, does not reach the connection to the service.
type bare struct{ context.Context }

func (bare) Value(any) any { return nil }

// RoundTrip sends a request to the service, and cleans the header of the answer.
func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.transport.RoundTrip(r.WithContext(bare{r.Context()}))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.StatusCode >= 300 && resp.StatusCode < 400 {
		_ = resp.Body.Close() //nolint:errcheck // nothing of it is used
		if resp.StatusCode == http.StatusSwitchingProtocols {
			return nil, errUpgrade
		}
		return nil, errRedirect
	}
	clean := *resp // a trailer that follows the body is written into the original
	clean.Trailer = nil
	clean.Header = http.Header{}
	for name, values := range resp.Header {
		if dropped[name] || s.leaks(name) || slices.ContainsFunc(values, s.leaks) {
			continue
		}
		clean.Header[name] = values
	}
	return &clean, nil
}

// dropped are answer headers that are about the connection to the service.
var dropped = map[string]bool{"Set-Cookie": true, "Location": true, "Alt-Svc": true, "Strict-Transport-Security": true, "Trailer": true,
	"Www-Authenticate": true, "Access-Control-Allow-Origin": true, "Access-Control-Allow-Credentials": true}

func (s *service) leaks(v string) bool {
	return s.config.Key != "" && strings.Contains(strings.ToLower(v), strings.ToLower(s.config.Key))
}
