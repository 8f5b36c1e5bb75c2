package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"polis/daemon/api/wire"
	"polis/daemon/gateway/access"
	"polis/daemon/gateway/provider"
)

// webService is a service that is no model service: [services.NAME] of the configuration.
type webService struct {
	*upstream
	config wire.Service
	rules  access.Rules
	header access.Header
}

func newWebService(c wire.Service, proxy wire.Proxy) (*webService, error) {
	s := &webService{config: c}
	if err := provider.CheckKey(c.Key); err != nil {
		return nil, err
	}
	u, err := provider.ParseAddress(c.URL)
	if err != nil {
		return nil, err
	}
	if s.rules, err = access.ParseRules(c.Methods, c.Paths); err != nil {
		return nil, err
	}
	if s.header, err = access.ParseHeader(c.Header); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	s.upstream = newUpstream(u, proxy, s.header.Secrets(c.Key))
	return s, nil
}

func (s *webService) same(o *webService) bool {
	return s.proxy == o.proxy && reflect.DeepEqual(s.config, o.config)
}

// RoundTrip sends a request to the service, and cleans the header of the answer. A redirect is for the
// agent's program: it is not followed with the key.
func (s *webService) RoundTrip(r *http.Request) (*http.Response, error) { return s.send(r) }

// webHeaders are the request headers that reach a service, with those of its configuration. All others
// stay behind: those that could carry a key, replace the method or the path, or name another host. A
// range could cut a key that the answer repeats.
var webHeaders = []string{
	"Accept", "Accept-Language", "Cache-Control", "Content-Encoding", "Content-Language", "Content-Type", "Git-Protocol", "Graphql-Features",
	"Idempotency-Key", "If-Match", "If-Modified-Since", "If-None-Match", "If-Unmodified-Since", "Pragma", "Prefer", "User-Agent",
	"X-Github-Api-Version", "X-Request-Id", "X-Requested-With",
}

// headers returns the headers of a request to the service, with its key.
func (s *webService) headers(in http.Header) http.Header {
	out := http.Header{}
	for name, values := range in {
		if slices.Contains(webHeaders, name) || strings.HasPrefix(name, "Npm-") || slices.Contains(s.config.Forward, name) {
			out[name] = slices.Clone(values)
		}
	}
	if len(out["User-Agent"]) == 0 {
		out["User-Agent"] = []string{""} // else net/http sends its own
	}
	// In a compressed answer a key could not be found.
	out.Set("Accept-Encoding", "identity")
	out.Del(s.header.Name)
	if s.config.Key != "" {
		out.Set(s.header.Name, s.header.Value(s.config.Key))
	}
	return out
}

var errReplaces = errors.New("a parameter must not replace the method")

// webQuery reads the parameters of a request. allow reports whether a method is allowed for its path.
func webQuery(raw string, allow func(method string) bool) (url.Values, error) {
	q, err := url.ParseQuery(raw)
	if err != nil {
		return nil, errors.New("the query must be plain: no ';', and complete escapes")
	}
	for name, values := range q {
		if access.Replaces(name) {
			return nil, errReplaces
		}
		for _, v := range values {
			if m, ok := access.Replacement(name, v); ok && !allow(m) {
				return nil, errReplaces
			}
		}
	}
	return q, nil
}

// localize replaces the address of the service in headers of an answer by that of the endpoint, so that
// the agent's program comes back with its next request. An address elsewhere stays as it is: a program
// that follows it does so without the key, and within its egress.
func (s *webService) localize(h http.Header, endpoint string) {
	own := s.url.Scheme + "://" + s.url.Host
	for _, name := range []string{"Location", "Content-Location"} {
		v := h.Get(name)
		if v == "" {
			continue
		}
		to, err := url.Parse(v)
		if err != nil {
			h.Del(name)
			continue
		}
		if to.Host != "" && to.Scheme+"://"+to.Host != own || to.Host == "" && !strings.HasPrefix(to.Path, "/") {
			continue
		}
		path, start := to.EscapedPath(), own
		if rest, ok := below(s.url.EscapedPath(), path); ok {
			path, start = rest, endpoint
		}
		to.Scheme, to.Host, to.Path, to.RawPath = "", "", "", ""
		h.Set(name, start+path+to.String())
	}
	base := own + s.url.EscapedPath()
	for i, v := range h["Link"] {
		h["Link"][i] = strings.ReplaceAll(v, "<"+base+"/", "<"+endpoint+"/")
	}
}

// below returns what follows base in a path.
func below(base, path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, base)
	return rest, ok && (rest == "" || rest[0] == '/')
}
