package gateway

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"
)

// renewTime bounds how long requests wait for another key after a service has refused theirs, renewEvery how often
// the refusal is reported to polisd.
const (
	renewTime  = 15 * time.Second
	renewEvery = time.Minute
)

// maxAgain bounds the body of a request to a service of [services] that can be sent again, in bytes.
const maxAgain = 64 << 10

// refusal is the last time that a service refused its key.
type refusal struct {
	at   time.Time
	sent <-chan struct{} // closed when polisd has sent the services again
}

// awaitKey reports that a service has refused its key, at most once in renewEvery, and waits until polisd has sent
// the services again: with another key, if it has one.
func (g *Gateway) awaitKey(ctx context.Context, name string) {
	now := g.Now()
	g.mu.Lock()
	r, known := g.refusals[name]
	report := !known || now.Sub(r.at) >= renewEvery
	if report { // at most one for each service of the configuration
		r = refusal{now, g.sent}
		g.refusals[name] = r
	}
	g.mu.Unlock()
	if report {
		g.KeyRefused(name)
	}
	t := time.NewTimer(r.at.Add(g.renew).Sub(now))
	defer t.Stop()
	select {
	case <-r.sent:
	case <-t.C:
	case <-ctx.Done():
	}
}

// wasSent lets requests that wait for a key continue. g.mu is held.
func (g *Gateway) wasSent() {
	close(g.sent)
	g.sent = make(chan struct{})
	for name := range g.refusals {
		if g.services[name] == nil && g.web[name] == nil {
			delete(g.refusals, name)
		}
	}
}

// renewed returns the service with another key, after it has refused that of s; nil if there is none.
func (g *Gateway) renewed(ctx context.Context, s *service) *service {
	return afterRefusal(ctx, g, s.config.Name, s.config.Key, func() *service {
		if n := g.services[s.config.Name]; n != nil && n.config.Key != s.config.Key && n.rekeys(s) {
			return n
		}
		return nil
	})
}

// afterRefusal returns what newer does, which is called with g.mu held, once polisd has another key than the one that
// was refused.
func afterRefusal[S any](ctx context.Context, g *Gateway, name, key string, newer func() *S) *S {
	locked := func() *S {
		g.mu.Lock()
		defer g.mu.Unlock()
		return newer()
	}
	n := locked()
	if n == nil && key != "" {
		g.awaitKey(ctx, name)
		n = locked()
	}
	return n
}

// rekeys reports whether s is o with another key.
func (s *service) rekeys(o *service) bool {
	c := s.config
	c.Key = o.config.Key
	return (&service{upstream: s.upstream, config: c}).same(o)
}

func (g *Gateway) renewedWeb(ctx context.Context, s *webService) *webService {
	return afterRefusal(ctx, g, s.config.Name, s.config.Key, func() *webService {
		if n := g.web[s.config.Name]; n != nil && n.config.Key != s.config.Key && n.rekeys(s) {
			return n
		}
		return nil
	})
}

func (s *webService) rekeys(o *webService) bool {
	c := s.config
	c.Key = o.config.Key
	return (&webService{upstream: s.upstream, config: c}).same(o)
}

// RoundTrip sends the request. One that is refused for its key is sent once more if there is another key.
func (x *exchange) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := x.s.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	next := x.g.renewed(r.Context(), x.s)
	if next == nil {
		return resp, nil
	}
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return resp, nil //nolint:nilerr // the refusal is the answer
		}
	}
	discard(resp)
	next.kind.Authorize(again.Header, next.config.Key)
	x.s = next
	return next.RoundTrip(again)
}

// RoundTrip sends the request. One that is refused for its key is sent once more if there is another key, and the
// body is kept.
func (x *webExchange) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := x.s.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	next := x.g.renewedWeb(r.Context(), x.s)
	bare := r.Body == nil || r.Body == http.NoBody
	if next == nil || !bare && x.again == nil {
		return resp, nil
	}
	again := r.Clone(r.Context())
	if !bare {
		again.Body = io.NopCloser(bytes.NewReader(x.again))
	}
	discard(resp)
	again.Header.Set(next.header.Name, next.header.Value(next.config.Key))
	x.s = next
	return next.RoundTrip(again)
}

// discard ends an answer that is not relayed. A short one leaves its connection usable.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) //nolint:errcheck // nothing of it is used
	_ = resp.Body.Close()                         //nolint:errcheck // nothing of it is used
}

// keep reads the body of a request to a service that can be sent again, if it is short.
func (x *webExchange) keep(r *http.Request, body io.ReadCloser) (io.ReadCloser, error) {
	if x.s.config.Key == "" || r.ContentLength <= 0 || r.ContentLength > maxAgain {
		return body, nil
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	x.again = b
	return io.NopCloser(bytes.NewReader(b)), nil
}
