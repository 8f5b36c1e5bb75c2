package gateway

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"polis/daemon/api/wire"
	"polis/daemon/gateway/provider"
)

// service is one model service as an agent uses it.
type service struct {
	*upstream
	config wire.Model
	kind   provider.Kind
	until  atomic.Int64 // unix nanoseconds: requests wait until then
	turns  turns
}

func newService(c wire.Model, proxy wire.Proxy) (*service, error) {
	s := &service{config: c, kind: provider.Kind(c.Kind)}
	if !slices.Contains(provider.Kinds(), s.kind) {
		return nil, fmt.Errorf("kind = %q: must be one of %q", c.Kind, provider.Kinds())
	}
	if err := provider.CheckKey(c.Key); err != nil {
		return nil, err
	}
	u, err := provider.ParseURL(c.URL)
	if err != nil {
		return nil, err
	}
	var secrets []string
	if c.Key != "" {
		secrets = []string{c.Key}
	}
	s.upstream = newUpstream(u, proxy, secrets)
	s.pause(c.PausedUntil)
	if !c.PausedUntil.IsZero() {
		s.turns.at(c.PausedUntil)
	}
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

// RoundTrip sends a request to the service, and cleans the header of the answer. A redirect is an error.
func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.send(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		_ = resp.Body.Close() //nolint:errcheck // nothing of it is used
		return nil, errRedirect
	}
	resp.Header.Del("Location")
	return resp, nil
}
