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

// minKey is the least length of a key, in bytes. A shorter one would occur in answers by chance.
const minKey = 8

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
	if err := CheckKey(c.Key); err != nil {
		return nil, err
	}
	var err error
	if s.url, err = ParseURL(c.URL); err != nil {
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

// ParseURL reads the address of a service: http or https, a host, and perhaps a path before that of the
// API. A final /v1 is part of the API's own paths.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("url: must be an address such as %q", "https://models.example.com")
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.User != nil, u.RawQuery != "", u.Fragment != "", u.Opaque != "":
		return nil, fmt.Errorf("url: must be http:// or https://, a host, and perhaps a path; no user, query or fragment")
	case u.RawPath != "" || strings.Contains(u.Path, "..") || strings.Contains(u.Path, "//"):
		return nil, fmt.Errorf("url: its path must be plain")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, fmt.Errorf("url: http:// is for this machine's own servers (127.0.0.1); use https://")
	}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/v1")
	return u, nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// CheckKey returns an error if a key cannot be sent or recognised. The error does not have the key.
func CheckKey(key string) error {
	if key == "" {
		return nil
	}
	if len(key) < minKey || len(key) > 8<<10 || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("key: must have %d to 8192 printable ASCII characters and no space", minKey)
	}
	return nil
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
