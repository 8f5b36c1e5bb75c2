package access

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPathsAreReadInOneFormOnly(t *testing.T) {
	for escaped, want := range map[string][2]string{ // plain and sent; "" is refused
		"/":                                {"/", "/"},
		"/a/b-c_d.e~f":                     {"/a/b-c_d.e~f", "/a/b-c_d.e~f"},
		"/a/":                              {"/a/", "/a/"},
		"/a%20b":                           {"/a b", "/a%20b"},
		"/a+b:c@d,e":                       {"/a+b:c@d,e", "/a+b:c@d,e"},
		"/%41dmin":                         {"/Admin", "/Admin"},
		"/%c3%a4":                          {"/ä", "/%C3%A4"},
		"/@scope%2fname":                   {"/@scope/name", "/@scope%2fname"},
		"/@scope%2Fname/-/x-1.tgz":         {"/@scope/name/-/x-1.tgz", "/@scope%2fname/-/x-1.tgz"},
		"/@scope/name":                     {"/@scope/name", "/@scope/name"},
		"/...a":                            {"/...a", "/...a"},
		"":                                 {},
		"a":                                {},
		"*":                                {},
		"//a":                              {},
		"/a//b":                            {},
		"/../a":                            {},
		"/a/..":                            {},
		"/a/./b":                           {},
		"/a/...":                           {},
		"/a/.. /b":                         {},
		"/a/%2e%2e/b":                      {},
		"/a/.%2E/b":                        {},
		"/a%2fb":                           {},
		"/a%5cb":                           {},
		`/a\b`:                             {},
		"/a;b":                             {},
		"/a%3bb":                           {},
		"/a/..;/b":                         {},
		"/a%3fb":                           {},
		"/a%23b":                           {},
		"/a%252e":                          {},
		"/a%25":                            {},
		"/a%00":                            {},
		"/a%0d%0ab":                        {},
		"/a%zz":                            {},
		"/a%c0%ae%c0%ae/b":                 {},
		"/a/%ef%bc%8e%ef%bc%8e/b":          {}, // full-width stops
		"/@a%2fb%2fc":                      {},
		"/@%2e%2e%2fx":                     {},
		"/@..%2f..":                        {},
		"/@x%2f..":                         {},
		"/a/@scope%2fname":                 {"/a/@scope/name", "/a/@scope%2fname"},
		"/a/b/@scope%2Fname/c":             {"/a/b/@scope/name/c", "/a/b/@scope%2fname/c"},
		"/a/@x%2f..":                       {},
		"/@a%2fb/@c%2fd":                   {},
		"/a%2f@b%2fc":                      {},
		"/" + strings.Repeat("a", MaxPath): {},
	} {
		p, err := ParsePath(escaped)
		if want[0] == "" {
			require.Error(t, err, escaped)
			continue
		}
		require.NoError(t, err, escaped)
		require.Equal(t, want[0], p.Plain, escaped)
		u := url.URL{Scheme: "https", Host: "h"}
		p.Below("/base", &u)
		require.Equal(t, "https://h/base"+want[1], u.String(), escaped)
	}
}

func TestRulesAllowWhatTheyName(t *testing.T) {
	rules, err := ParseRules([]string{"GET"}, []string{"/repos/example/**", "POST,PATCH /repos/example/app/issues/*", "/a/*.tgz", "/x/**/y", "/"})
	require.NoError(t, err)
	for request, want := range map[string]bool{
		"GET /repos/example":                      true,
		"GET /repos/example/app/x/y":              true,
		"HEAD /repos/example/app":                 true,
		"GET /repos/example2/app":                 false,
		"GET /repos/Example/app":                  false,
		"GET /repos":                              false,
		"POST /repos/example/app/issues/1":        true,
		"PATCH /repos/example/app/issues/1":       true,
		"POST /repos/example/app/issues/1/labels": false,
		"POST /repos/example/app/issues":          false,
		"DELETE /repos/example/app/issues/1":      false,
		"get /repos/example":                      false,
		"GET /a/b.tgz":                            true,
		"GET /a/b.zip":                            false,
		"GET /a/b/c.tgz":                          false,
		"GET /x/y":                                true,
		"GET /x/1/2/y":                            true,
		"GET /x/1/2/z":                            false,
		"GET /":                                   true,
		"OPTIONS /":                               false,
	} {
		method, path, _ := strings.Cut(request, " ")
		p, err := ParsePath(path)
		require.NoError(t, err)
		require.Equal(t, want, rules.Allow(method, p), request)
	}
}

// TestAnEncodedScopeIsNamedByItsRule: a server can read what follows the scope as a part of the segment,
// so that another rule could mean something else.
func TestAnEncodedScopeIsNamedByItsRule(t *testing.T) {
	for pattern, want := range map[string]bool{
		"/team/@example/**":     true,
		"/team/@example/left":   true,
		"/team/@*/*":            true,
		"/*/@example/*":         true,
		"/team/@other/*":        false,
		"/team/**":              false,
		"/team/*/left":          false,
		"/**/@example/left":     false,
		"/**":                   false,
		"/team/@example":        false,
		"/team/@example%2fleft": false,
	} {
		rules, err := ParseRules([]string{"GET"}, []string{pattern})
		if err != nil {
			require.False(t, want, pattern)
			continue
		}
		p, err := ParsePath("/team/@example%2fleft")
		require.NoError(t, err)
		require.Equal(t, want, rules.Allow("GET", p), pattern)
	}
	rules, err := ParseRules([]string{"GET"}, []string{"/**"})
	require.NoError(t, err)
	p, err := ParsePath("/@example%2fleft")
	require.NoError(t, err)
	require.True(t, rules.Allow("GET", p), "the first segment is that of the registry")
}

func TestRulesThatCannotBeMeantAreErrors(t *testing.T) {
	for name, c := range map[string]struct{ methods, paths []string }{
		"no methods":       {nil, []string{"/"}},
		"unknown method":   {[]string{"CONNECT"}, []string{"/"}},
		"small letters":    {[]string{"get"}, []string{"/"}},
		"no paths":         {[]string{"GET"}, nil},
		"relative":         {[]string{"GET"}, []string{"a"}},
		"own method":       {[]string{"GET"}, []string{"TRACE /"}},
		"no own method":    {[]string{"GET"}, []string{" /"}},
		"dots":             {[]string{"GET"}, []string{"/a/../b"}},
		"escape":           {[]string{"GET"}, []string{"/%41"}},
		"part of segments": {[]string{"GET"}, []string{"/a**"}},
		"class":            {[]string{"GET"}, []string{"/[ab]"}},
		"query":            {[]string{"GET"}, []string{"/a?b"}},
		"empty segment":    {[]string{"GET"}, []string{"/a//b"}},
		"too many":         {[]string{"GET"}, make([]string, MaxRules+1)},
	} {
		_, err := ParseRules(c.methods, c.paths)
		require.Error(t, err, name)
	}
}

func TestTheHeaderCarriesTheKey(t *testing.T) {
	const key = "sk-0123456789"
	encoded := base64.StdEncoding.EncodeToString([]byte("me:" + key))
	for text, want := range map[string]string{
		DefaultHeader:                            "Bearer " + key,
		"private-token: {key}":                   key,
		"Authorization: token {key}":             "token " + key,
		"Authorization: Basic {base64:me:{key}}": "Basic " + encoded,
		"":                                       "", "X": "", "X: y": "", "X: {key}{key}": "", "Host: {key}": "", "X Y: {key}": "", "Content-Length: {key}": "", "X: {key}\n": "", "X: {base64:{key}}": "", "Sec-Fetch-Site: {key}": "",
	} {
		h, err := ParseHeader(text)
		if want == "" {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, h.Value(key))
		require.Contains(t, h.Secrets(key), key)
		for _, s := range h.Secrets(key) {
			want = strings.ReplaceAll(want, s, "")
		}
		require.NotContains(t, want, key)
		require.NotContains(t, want, encoded)
	}
	h, _ := ParseHeader(DefaultHeader)
	require.Empty(t, h.Secrets(""))
}

// Feature: multi-agent-workspaces, Property: a path that is sent is the one that was checked
func TestWhatIsSentIsWhatWasChecked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.SampledFrom([]string{"/", ".", "..", "%2e", "%2f", "a", "@a", ";", "%", "%25", "\\", "%5c", "ä", "%c3%a4", " ", "%20", "?", "%00"})).Draw(t, "parts")
		checkSent(t, "/"+strings.Join(parts, ""))
	})
}

type tester interface {
	Helper()
	Errorf(string, ...any)
	FailNow()
}

// checkSent checks the path that is sent for a request, if one is.
func checkSent(t tester, escaped string) {
	t.Helper()
	p, err := ParsePath(escaped)
	if err != nil {
		return
	}
	u := url.URL{Scheme: "https", Host: "h"}
	p.Below("", &u)
	sent := u.EscapedPath()
	got, err := url.PathUnescape(sent)
	require.NoError(t, err)
	require.Equal(t, p.Plain, got)
	again, err := ParsePath(sent)
	require.NoError(t, err, "the form that is sent is canonical")
	require.Equal(t, p, again)
	require.Equal(t, p.Plain, (&url.URL{Path: p.Plain}).JoinPath().Path, "no server can shorten it")
	require.NotContains(t, p.Plain, "%")
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"/", "/a/%2e%2e/b", "/@a%2fb", "/ä", "/a;b", "/%41"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, escaped string) { checkSent(t, escaped) })
}

func FuzzRules(f *testing.F) {
	f.Add("GET", "/a/**", "/a/b")
	f.Add("GET", "POST /**/x/**/y", "/x/x/x/y")
	f.Fuzz(func(t *testing.T, method, pattern, escaped string) {
		rules, err := ParseRules([]string{"GET"}, []string{pattern})
		p, perr := ParsePath(escaped)
		if err != nil || perr != nil {
			return
		}
		if rules.Allow(method, p) {
			require.Contains(t, append(Methods(), "HEAD"), method)
		}
	})
}

func FuzzHeader(f *testing.F) {
	f.Add(DefaultHeader, "sk-0123456789")
	f.Add("Authorization: Basic {base64:me:{key}}", "sk-0123456789")
	f.Fuzz(func(t *testing.T, text, key string) {
		h, err := ParseHeader(text)
		if err != nil || key == "" {
			return
		}
		require.NotContains(t, h.Name, "\n")
		sent := false
		for _, s := range h.Secrets(key) {
			sent = sent || strings.Contains(h.Value(key), s)
		}
		require.True(t, sent)
	})
}
