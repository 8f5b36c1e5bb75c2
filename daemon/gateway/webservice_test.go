package gateway

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/wire"
)

// web is the configuration of one service.
func web(url string) wire.Models {
	return wire.Models{Services: []wire.Service{{Name: "tracker", URL: url + "/api", Key: realKey, Header: "Authorization: Bearer {key}",
		Methods: []string{"GET"}, Paths: []string{"/items/**", "POST,DELETE /items/*/notes", "/@acme/*"}, Forward: []string{"X-Trace"}}}}
}

// calls records what an endpoint reports.
type calls struct {
	mu sync.Mutex
	c  []Call
}

func (c *calls) add(x Call) { c.mu.Lock(); c.c = append(c.c, x); c.mu.Unlock() }

func (c *calls) last(t *testing.T) Call {
	t.Helper()
	return c.lastOf(t, 1)
}

// lastOf is last after n requests: that of an earlier one can be recorded after the next has begun.
func (c *calls) lastOf(t *testing.T, n int) Call {
	t.Helper()
	var out Call
	require.Eventually(t, func() bool { // a call is recorded after its answer
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.c) < n {
			return false
		}
		out = c.c[len(c.c)-1]
		c.c = nil
		return true
	}, 20*time.Second, time.Millisecond)
	out.Time, out.Millis = time.Time{}, 0
	return out
}

func newWeb(t *testing.T, handle http.HandlerFunc) (*standIn, *endpoint, *calls) {
	s := newStandIn(t)
	s.handle = handle
	e := newEndpoint(t, web(s.URL))
	c := &calls{}
	e.Called = c.add
	return s, e, c
}

func TestAServiceGetsTheKeyAndNothingElseOfTheAgents(t *testing.T) {
	s, e, c := newWeb(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })
	for _, form := range []struct{ path, host string }{{"/tracker/items/a%20b?x=1&y", ""}, {"/items/a%20b?x=1&y", "tracker.polis.internal:11717"}, {"/items/a%20b?x=1&y", "TRACKER.polis.internal"}} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", e.url+form.path, nil)
		require.NoError(t, err)
		if form.host != "" {
			r.Host = form.host
		}
		for _, h := range []string{"Authorization", "Cookie", "X-Forwarded-For", "Forwarded", "X-Http-Method-Override", "X-Method-Override", "X-Original-Url", "Range", "X-Api-Key", "Proxy-Authorization"} {
			r.Header.Set(h, "agent")
		}
		r.Header.Set("X-Trace", "t")
		r.Header.Set("Npm-Command", "install")
		r.Header.Set("User-Agent", "agent/1")
		resp, err := http.DefaultTransport.RoundTrip(r)
		require.NoError(t, err)
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "hello", string(b))
		got := s.seen[len(s.seen)-1]
		require.Equal(t, "/api/items/a%20b", got.URL.EscapedPath())
		require.Equal(t, "x=1&y=", got.URL.RawQuery)
		require.Equal(t, strings.TrimPrefix(s.URL, "http://"), got.Host)
		require.Equal(t, http.Header{"Authorization": {"Bearer " + realKey}, "X-Trace": {"t"}, "Npm-Command": {"install"}, "User-Agent": {"agent/1"}, "Accept-Encoding": {"identity"}}, got.Header)
		require.Equal(t, Call{Service: "tracker", Method: "GET", Path: "/items/a b", Status: 200, Received: 5}, c.last(t))
	}
	code, _ := e.post("/tracker/items/1/notes", "a note", "Content-Type", "text/x")
	require.Equal(t, 200, code)
	require.Equal(t, "a note", s.bodies[len(s.bodies)-1])
	require.Equal(t, Call{Service: "tracker", Method: "POST", Path: "/items/1/notes", Status: 200, Sent: 6, Received: 5}, c.last(t))
	resp := e.do("GET", "/tracker/@acme%2fpkg", "")
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "/api/@acme%2fpkg", s.seen[len(s.seen)-1].RequestURI)
}

func TestHostileRequestsForServicesAreRefused(t *testing.T) {
	s, e, c := newWeb(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "reached") })
	get := func(path, headers string) string {
		return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n", path, headers)
	}
	require.Contains(t, e.raw(get("/tracker/items/1", "")), " 200 ", "the request itself is good")
	_ = c.last(t)
	for name, request := range map[string]string{
		"CONNECT":                      "CONNECT internal.example.com:443 HTTP/1.1\r\nHost: internal.example.com:443\r\n\r\n",
		"CONNECT to the service":       "CONNECT tracker.polis.internal:443 HTTP/1.1\r\nHost: tracker.polis.internal:443\r\n\r\n",
		"absolute URI":                 get("http://internal.example.com/items/1", ""),
		"absolute URI of itself":       strings.Replace(get("http://tracker.polis.internal/items/1", ""), "127.0.0.1", "tracker.polis.internal", 1),
		"another Host":                 strings.Replace(get("/tracker/items/1", ""), "127.0.0.1", "evil.example.com", 1),
		"Host of a similar name":       strings.Replace(get("/items/1", ""), "127.0.0.1", "tracker.polis.internal.evil.example.com", 1),
		"Host of another service":      strings.Replace(get("/tracker/items/1", ""), "127.0.0.1", "other.polis.internal", 1),
		"Host below a service":         strings.Replace(get("/items/1", ""), "127.0.0.1", "x.tracker.polis.internal", 1),
		"two Hosts":                    get("/tracker/items/1", "Host: evil.example.com\r\n"),
		"length and chunks":            get("/tracker/items/1", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"),
		"two lengths":                  get("/tracker/items/1", "Content-Length: 3\r\nContent-Length: 4\r\n"),
		"upgrade":                      get("/tracker/items/1", "Connection: upgrade\r\nUpgrade: websocket\r\n"),
		"page of the web":              get("/tracker/items/1", "Sec-Fetch-Site: cross-site\r\n"),
		"another path":                 get("/tracker/admin", ""),
		"no path":                      get("/tracker", ""),
		"prefix of a path":             get("/tracker/items2", ""),
		"another case":                 get("/tracker/Items/1", ""),
		"service in capitals":          get("/Tracker/items/1", ""),
		"encoded service":              get("/%74racker/items/1", ""),
		"dots":                         get("/tracker/items/../admin", ""),
		"dots to another service":      get("/tracker/../tracker/items/1", ""),
		"encoded dots":                 get("/tracker/items/%2e%2e/admin", ""),
		"half encoded dots":            get("/tracker/items/.%2E/admin", ""),
		"encoded slash":                get("/tracker/items%2f1", ""),
		"encoded slash and dots":       get("/tracker/items/..%2fadmin", ""),
		"double encoded":               get("/tracker/items/%252e%252e/admin", ""),
		"semicolon":                    get("/tracker/items/..;/admin", ""),
		"double slash":                 get("/tracker//items/1", ""),
		"double slash before":          get("//tracker/items/1", ""),
		"backslash":                    get(`/tracker/items\..\admin`, ""),
		"fragment":                     get("/tracker/items/1%23/x", ""),
		"NUL":                          get("/tracker/items/1%00", ""),
		"method in the query":          get("/tracker/items/1?_method=DELETE", ""),
		"method in the query, encoded": get("/tracker/items/1?%5fMethod=DELETE", ""),
		"semicolon in the query":       get("/tracker/items/1?a;_method=DELETE", ""),
		"method, a dot":                get("/tracker/items/1?.method=DELETE", ""),
		"method, a bracket":            get("/tracker/items/1?[method=DELETE", ""),
		"method, a list":               get("/tracker/items/1?_method[]=DELETE", ""),
		"method, a space":              get("/tracker/items/1?+_method=DELETE", ""),
		"method in brackets":           get("/tracker/items/1?[_method]=DELETE", ""),
		"method, encoded twice":        get("/tracker/items/1?%255fmethod=DELETE", ""),
		"method before a NUL":          get("/tracker/items/1?_method%00x=DELETE", ""),
		"method in full width":         get("/tracker/items/1?%EF%BC%BFmethod=DELETE", ""),
		"method of Google":             get("/tracker/items/1?$httpMethod=DELETE", ""),
		"method of Catalyst":           get("/tracker/items/1?x-tunneled-method=DELETE", ""),
		"method of ServiceStack":       get("/tracker/items/1?X_Http_Method_Override=DELETE", ""),
		"method of Facebook":           get("/tracker/items/1?method=delete", ""),
		"another method":               strings.Replace(get("/tracker/items/1", ""), "GET", "DELETE", 1),
		"method in small letters":      strings.Replace(get("/tracker/items/1", ""), "GET", "get", 1),
		"TRACE":                        strings.Replace(get("/tracker/items/1", ""), "GET", "TRACE", 1),
		"asterisk":                     "OPTIONS * HTTP/1.1\r\nHost: tracker.polis.internal\r\n\r\n",
		"header that is too large":     get("/tracker/items/1", "X-A: "+strings.Repeat("a", 100<<10)+"\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			s.mu.Lock()
			before := s.requests
			s.mu.Unlock()
			require.Regexp(t, `^HTTP/1.1 [45]\d\d `, e.raw(request))
			s.mu.Lock()
			defer s.mu.Unlock()
			require.Equal(t, before, s.requests, "the service got nothing")
		})
	}
}

// TestAFieldOfAFormCannotReplaceTheMethod: POST is allowed for notes, and DELETE too; PUT is not.
func TestAFieldOfAFormCannotReplaceTheMethod(t *testing.T) {
	s, e, _ := newWeb(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "reached") })
	const form, json = "application/x-www-form-urlencoded", "application/json"
	part := func(head, value string) string { return "--b\r\n" + head + "\r\n\r\n" + value + "\r\n--b--\r\n" }
	const field = `Content-Disposition: form-data; name="%s"`
	for name, c := range map[string]struct {
		kind, body string
		passes     bool
	}{
		"a form":                       {form, "text=a&method=card&x[_method]=PUT", true},
		"an allowed method":            {form, "_method=delete", true},
		"a method that is not allowed": {form, "text=a&_method=put", false},
		"after much text":              {form, "text=" + strings.Repeat("a", 60<<10) + "&_method=put", false},
		"without a value":              {form, "text=a&_method", false},
		"mangled by PHP":               {form, "+.method=put", false},
		"mangled by Rack":              {form, "[[_method]=put", false},
		"escaped":                      {form, "%5F%6dethod=%70ut", false},
		"no type":                      {"", "_method=put", false},
		"another charset":              {form + "; charset=ibm037", "text=a", false},
		"a known charset":              {form + "; charset=UTF-8", "text=a", true},
		"two types":                    {"text/plain, " + form, "_method=put", false},
		"text":                         {"text/plain", "_method=put", true},
		"JSON":                         {json, `{"a":{"_method":"PUT"},"b":["_method"],"c":"_method"}`, true},
		"a member":                     {json, `{"a":1,"_method":"PUT"}`, false},
		"a member, escaped":            {"application/vnd.api+json", `{"a":1,"\u005fmeth\u006fd" : "PUT"}`, false},
		"a member, allowed":            {json, `{"_method":"DELETE"}`, true},
		"parts":                        {"multipart/form-data; boundary=b", part(fmt.Sprintf(field, "text")+`; filename="_method"`, "_method"), true},
		"a part":                       {"multipart/form-data; boundary=b", part(fmt.Sprintf(field, "_method"), "PUT"), false},
		"a part, allowed":              {"multipart/form-data; boundary=b", part(fmt.Sprintf(field, "_method"), "DELETE"), true},
		"a part, no quotes":            {"multipart/form-data; boundary=b", part(`content-disposition : FORM-DATA; a=b; NAME = _method`, "PUT"), false},
		"a part, folded":               {"multipart/form-data; boundary=b", part("Content-Disposition: form-data;\r\n name=\r\n \"_method\"", "PUT"), false},
		"a part, encoded":              {"multipart/form-data; boundary=b", part(fmt.Sprintf(field, "_method")+"\r\nContent-Transfer-Encoding: base64", "UFVU"), false},
		"a part, RFC 5987":             {"multipart/form-data; boundary=b", part(`Content-Disposition: form-data; name*=utf-8''%5fmethod`, "PUT"), false},
		"two boundaries":               {"multipart/form-data; boundary=b; boundary=c", part(fmt.Sprintf(field, "text"), "a"), false},
		"no boundary":                  {"multipart/form-data", part(fmt.Sprintf(field, "text"), "a"), false},
	} {
		t.Run(name, func(t *testing.T) {
			s.mu.Lock()
			before := s.requests
			s.mu.Unlock()
			var headers []string
			if c.kind != "" {
				headers = []string{"Content-Type", c.kind}
			}
			code, body := e.post("/tracker/items/1/notes", c.body, headers...)
			s.mu.Lock()
			defer s.mu.Unlock()
			if c.passes {
				require.Equal(t, 200, code, body)
				require.Equal(t, c.body, s.bodies[len(s.bodies)-1])
				return
			}
			require.Contains(t, []int{400, 403}, code, body)
			require.Contains(t, body, CodeServiceRequest)
			require.Equal(t, before, s.requests, "the service got nothing")
		})
	}
	code, body := e.post("/tracker/items/1/notes", "text=a", "Content-Type", form, "Content-Encoding", "gzip")
	require.Equal(t, 400, code, body)
	code, body = e.post("/tracker/items/1/notes", "text="+strings.Repeat("a", 4<<20)+"&_method=put", "Content-Type", form)
	require.Equal(t, 403, code, body)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bodies {
		if strings.HasPrefix(b, "text=aaaaa") {
			require.NotContains(t, b, "_method", "the service never has a field that is not allowed")
			require.True(t, strings.HasSuffix(b, cutBody), "nor the end of the body")
		}
	}
}

func TestARefusalOfAServiceSaysWhatToDo(t *testing.T) {
	_, e, c := newWeb(t, nil)
	code, body := e.post("/tracker/items/1", "x")
	require.Equal(t, 403, code)
	require.Contains(t, body, "services.tracker.paths")
	require.Contains(t, body, `"message":"polis: POST of this path is not allowed`)
	require.Equal(t, Call{Service: "tracker", Method: "POST", Path: "/items/1", Status: 403, Code: CodeServiceRequest}, c.last(t))
	resp := e.do("GET", "/tracker/admin", "", "User-Agent", "git/2.50")
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Regexp(t, `^polis: GET of this path is not allowed.*\n$`, string(b))
	_ = c.last(t)
	r, err := http.NewRequestWithContext(t.Context(), "GET", e.url+"/x", nil)
	require.NoError(t, err)
	r.Host = "other.polis.internal"
	resp, err = http.DefaultTransport.RoundTrip(r)
	require.NoError(t, err)
	b, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 404, resp.StatusCode)
	require.Contains(t, string(b), "(it has tracker); an administrator can give it one (gateway.services)")
	require.Equal(t, Call{Service: "other", Method: "GET", Path: "/", Status: 404, Code: CodeServiceRequest}, c.last(t))
}

func TestAServiceCannotShowTheKeyOrHaveItFollowARedirect(t *testing.T) {
	var to string
	elsewhere := newStandIn(t)
	var s *standIn
	s, e, _ := newWeb(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Link", `<`+s.URL+`/api/items/2>; rel="next"`)
		if to != "" {
			w.Header().Set("Location", strings.ReplaceAll(to, "KEY", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")))
			w.WriteHeader(302)
		}
		fmt.Fprint(w, "you sent "+r.Header.Get("Authorization"))
	})
	for location, want := range map[string]string{
		"":                          "",
		elsewhere.URL + "/x":        elsewhere.URL + "/x",
		"//evil.example.com/x":      "//evil.example.com/x",
		s.URL + "/api/items/2?a=b":  e.url + "/tracker/items/2?a=b",
		"/api/items/2":              e.url + "/tracker/items/2",
		"/elsewhere":                s.URL + "/elsewhere",
		"/apifoo":                   s.URL + "/apifoo",
		"other":                     "other",
		elsewhere.URL + "/?key=KEY": "",
		"http://%zz":                "",
	} {
		to = location
		resp := e.do("GET", "/tracker/items/1", "")
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.Header.Get("Location"), location)
		require.Equal(t, "you sent Bearer "+strings.Repeat("*", len(realKey)), string(b))
		require.Empty(t, resp.Header.Get("X-Echo"))
		require.Empty(t, resp.Header.Get("Set-Cookie"))
		require.Equal(t, "<"+e.url+`/tracker/items/2>; rel="next"`, resp.Header.Get("Link"))
	}
	require.Zero(t, elsewhere.requests, "no redirect is followed")
}

func TestTheEncodedKeyIsRemovedToo(t *testing.T) {
	s := newStandIn(t)
	s.handle = func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		fmt.Fprintf(w, "%s %s", password, r.Header.Get("Authorization"))
	}
	m := web(s.URL)
	m.Services[0].Header = "Authorization: Basic {base64:me:{key}}"
	e := newEndpoint(t, m)
	resp := e.do("GET", "/tracker/items/1", "")
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Regexp(t, `^\*+ Basic \*+$`, string(b))
}

func TestBodiesOfServicesAreStreamedAndBounded(t *testing.T) {
	s, e, c := newWeb(t, nil)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write([]byte("packed"))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	code, _ := e.post("/tracker/items/1/notes", zipped.String(), "Content-Type", "application/x-git-upload-pack-request", "Content-Encoding", "gzip")
	require.Equal(t, 200, code, "git sends such bodies")
	s.mu.Lock()
	require.Equal(t, zipped.String(), s.bodies[len(s.bodies)-1])
	s.mu.Unlock()
	_ = c.last(t)
	line := e.raw("POST /tracker/items/1/notes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
	require.Contains(t, line, " 200 ")
	s.mu.Lock()
	require.Equal(t, "abc", s.bodies[len(s.bodies)-1], "the body that was read is the one that is sent")
	require.Equal(t, []string{"chunked"}, s.seen[len(s.seen)-1].TransferEncoding)
	require.Empty(t, s.seen[len(s.seen)-1].Header.Get("Content-Length"))
	s.mu.Unlock()
	line = e.raw(fmt.Sprintf("POST /tracker/items/1/notes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n", maxWebBody+1))
	require.Contains(t, line, " 413 ")
}

func TestARefusedKeyIsReportedOnceAMinute(t *testing.T) {
	s := newStandIn(t)
	s.handle = func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
	m := all(s.URL)
	m.Services = web(s.URL).Services
	m.Services = append(m.Services, wire.Service{Name: "open", URL: s.URL, Header: "X: {key}", Methods: []string{"GET"}, Paths: []string{"/**"}})
	var mu sync.Mutex
	var refused []string
	now := time.Now()
	e := newEndpoint(t, m)
	e.renew = 0
	e.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	e.KeyRefused = func(name string) { mu.Lock(); refused = append(refused, name); mu.Unlock() }
	for range 2 {
		for range 3 {
			code, _ := e.post("/anthropic/v1/messages", `{"model":"m"}`)
			require.Equal(t, 401, code)
			for _, path := range []string{"/tracker/items/1", "/open/x"} {
				resp := e.do("GET", path, "")
				require.NoError(t, resp.Body.Close())
				require.Equal(t, 401, resp.StatusCode)
			}
		}
		mu.Lock()
		require.Equal(t, []string{"anthropic", "tracker"}, refused, "a service without a key refuses none")
		refused, now = nil, now.Add(time.Minute)
		mu.Unlock()
	}
}

func TestRequestsToAServiceAreBoundedPerMinute(t *testing.T) {
	var later atomic.Int64 // the end of an earlier request reads it
	start := time.Now()
	s, e, c := newWeb(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") })
	e.Now = func() time.Time { return start.Add(time.Duration(later.Load())) }
	m := web(s.URL)
	m.Services[0].RequestsPerMinute = 2
	m.Services = append(m.Services, wire.Service{Name: "open", URL: s.URL, Header: "X: {key}", Methods: []string{"GET"}, Paths: []string{"/**"}})
	require.NoError(t, e.Set(m))
	for range 3 { // what is refused anyway does not count
		status, _ := e.post("/tracker/items/1", "")
		require.Equal(t, http.StatusForbidden, status)
	}
	get := func(path string) *http.Response {
		resp := e.do("GET", path, "")
		require.NoError(t, resp.Body.Close())
		return resp
	}
	require.Equal(t, http.StatusOK, get("/tracker/items/1").StatusCode)
	later.Add(int64(20 * time.Second))
	require.Equal(t, http.StatusOK, get("/tracker/items/1").StatusCode)
	m.Services[0].Forward = []string{"X-Other"} // a change of the service does not begin the minute again
	require.NoError(t, e.Set(m))
	c.lastOf(t, 5)
	resp := get("/tracker/items/1")
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Equal(t, "40", resp.Header.Get("Retry-After"))
	require.Equal(t, CodeServiceRate, c.last(t).Code)
	require.Equal(t, http.StatusOK, get("/open/x").StatusCode, "each service has its own")
	require.Equal(t, 3, s.requests)
	later.Add(int64(40 * time.Second))
	require.Equal(t, http.StatusOK, get("/tracker/items/1").StatusCode)
}
