package provider

import (
	"encoding/json"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCallsThatAKindAllows(t *testing.T) {
	for _, c := range []struct {
		kind         Kind
		method, path string
		model        string
		ok           bool
	}{
		{Anthropic, "POST", "/v1/messages", "", true},
		{Anthropic, "GET", "/v1/models/claude-x", "claude-x", true},
		{Anthropic, "GET", "/v1/messages", "", false},
		{Anthropic, "POST", "/v1/messages/", "", false},
		{Anthropic, "POST", "/v1/messages/batches", "", false},
		{OpenAI, "POST", "/v1/chat/completions", "", true},
		{OpenAI, "GET", "/v1/responses/resp_1", "", false},
		{OpenAI, "DELETE", "/v1/models/m", "", false},
		{Compatible, "POST", "/v1/responses", "", true},
		{Gemini, "POST", "/v1beta/models/g-1:streamGenerateContent", "g-1", true},
		{Gemini, "POST", "/v1beta/models/g-1:delete", "", false},
		{Gemini, "POST", "/v1beta/models/:generateContent", "", false},
		{Gemini, "POST", "/v1beta/models/a:countTokens:generateContent", "", false},
		{Gemini, "GET", "/v1beta/models/..", "", false},
		{Kind("other"), "POST", "/v1/messages", "", false},
	} {
		got, ok := c.kind.Match(c.method, c.path)
		require.Equal(t, c.ok, ok, "%s %s %s", c.kind, c.method, c.path)
		if ok {
			require.Equal(t, c.path, got.Path)
			require.Equal(t, c.model, got.Model)
		}
	}
}

// Feature: multi-agent-workspaces, Property: no path of an agent reaches the provider unless a pattern made it
func TestPathsAreMadeFromThePatterns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom(Kinds()).Draw(t, "kind")
		path := rapid.StringMatching(`(/(v1|v1beta|models|messages|chat|completions|\.\.|m|a%2f)){1,4}(:generateContent)?.?`).Draw(t, "path")
		c, ok := k.Match(rapid.SampledFrom([]string{"GET", "POST"}).Draw(t, "method"), path)
		if !ok {
			return
		}
		require.Equal(t, path, c.Path)
		u, err := url.Parse("https://models.example.com" + c.Path)
		require.NoError(t, err)
		require.Equal(t, u.Path, u.JoinPath().Path, "nothing in it is resolved")
	})
}

func TestStreamsOfChatReportTheirUsage(t *testing.T) {
	call, _ := OpenAI.Match("POST", "/v1/chat/completions")
	for body, changed := range map[string]bool{
		`{"model":"m"}`:                                                                                      false,
		`{"model":"m","stream":true}`:                                                                        true,
		`{"model":"m","stream":true,"stream_options":null}`:                                                  true,
		`{"model":"m","stream":true,"stream_options":{"include_usage":false}}`:                               true,
		`{"model":"m","stream":true,"stream_options":{"include_usage":true}}`:                                false,
		" {\n\"stream_options\" : { } , \"stream\":true , \"x\":[{\"a\":\"}\\\"\"},2], \"model\" : \"m\" } ": true,
		`{"model":"m","stream":true,"stream_options":{"include_usage":true,"include_usage":false,"x":1}}`:    true,
	} {
		r, err := ReadBody(call, []byte(body))
		require.NoError(t, err, body)
		require.Equal(t, changed, string(r.Body) != body, body)
		if r.Stream {
			var v struct {
				Options struct {
					Usage bool `json:"include_usage"`
				} `json:"stream_options"`
				Model string
			}
			require.NoError(t, json.Unmarshal(r.Body, &v))
			require.True(t, v.Options.Usage, body)
			require.Equal(t, "m", v.Model)
			require.Equal(t, 1, strings.Count(string(r.Body), "include_usage"))
		}
	}
}

// TestALargeBodyIsNotCopied: an agent can have many on their way at once.
func TestALargeBodyIsNotCopied(t *testing.T) {
	call, _ := OpenAI.Match("POST", "/v1/chat/completions")
	pad := strings.Repeat("text ", 1<<20)
	for name, c := range map[string]struct {
		body string
		most float64 // copies of the body
	}{
		"text":         {`{"model":"m","messages":"` + pad + `"}`, 0.1},
		"stream":       {`{"model":"m","messages":"` + pad + `","stream":true}`, 1.1},
		"many members": {`{"model":"m"` + strings.Repeat(`,"some_other_member":0`, 200<<10) + `}`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			body := []byte(c.body)
			runtime.ReadMemStats(&before)
			r, err := ReadBody(call, body)
			runtime.ReadMemStats(&after)
			require.NoError(t, err)
			require.Equal(t, "m", r.Model)
			require.LessOrEqual(t, float64(after.TotalAlloc-before.TotalAlloc)/float64(len(body)), c.most)
		})
	}
}

func TestBodiesThatCouldMeanTwoThingsAreRefused(t *testing.T) {
	call, _ := OpenAI.Match("POST", "/v1/responses")
	for _, body := range []string{"", "null", "[]", `"x"`, `{"model":"m"} {}`, `{"model":"m"`, `{"model":"m","model":"m"}`, `{"model":"m","STREAM":true}`,
		`{"model":"m","stream":"yes"}`, `{"model":"m","background":true}`, `{"model":""}`, `{"model":"../x"}`, `{"model":null}`, "{\"model\":\"m\",\"mod\xffel\":\"n\"}", "\ufeff{\"model\":\"m\"}", `{"model":"m",}`, `{"model" "m"}`, `{"model":"m" "x":1}`, `{"\u006dodel":"a","model":"b"}`} {
		_, err := ReadBody(call, []byte(body))
		require.Error(t, err, body)
		require.NotContains(t, err.Error(), "../x")
	}
	r, err := ReadBody(call, []byte(` {"input":{"model":"other","stream":true},"model":"vendor/m:free","stream":null} `))
	require.NoError(t, err)
	require.Equal(t, "vendor/m:free", r.Model)
	require.False(t, r.Stream)
}

func TestFailuresHaveTheProvidersForm(t *testing.T) {
	for _, k := range Kinds() {
		for _, status := range []int{400, 403, 404, 413, 429, 502} {
			var v map[string]any
			require.NoError(t, json.Unmarshal(k.Body(Failure{Status: status, Code: "CODE", Message: `with "quotes"`}), &v))
			e := v["error"].(map[string]any)
			require.Equal(t, `polis: with "quotes" (CODE)`, e["message"])
		}
	}
	require.Contains(t, string(Anthropic.Body(Failure{Status: 429})), `"rate_limit_error"`)
	require.Contains(t, string(Gemini.Body(Failure{Status: 429})), `"RESOURCE_EXHAUSTED"`)
	require.Contains(t, string(OpenAI.Body(Failure{Status: 429})), `"insufficient_quota"`)
}

func TestHeadersThatCouldCarryAKeyStayBehind(t *testing.T) {
	in := http.Header{}
	for _, h := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key", "Api-Key", "Cookie", "Host", "Connection", "Te", "Trailer", "Transfer-Encoding", "Content-Length", "Forwarded", "X-Forwarded-Host", "Anthropic-Version", "X-Stainless-Os"} {
		in.Set(h, "v")
	}
	require.Equal(t, http.Header{"Anthropic-Version": {"v"}, "X-Stainless-Os": {"v"}, "Accept-Encoding": {"identity"}}, Headers(in))
	require.Equal(t, map[string][]string{"alt": {"sse"}}, Query(map[string][]string{"alt": {"sse", "x"}, "key": {"k"}, "access_token": {"t"}}))
}

func FuzzReadBody(f *testing.F) {
	f.Add([]byte(`{"model":"m","stream":true,"stream_options":{"include_usage":false}}`))
	f.Add([]byte(`{"model":"m","Model":"n"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
			call, _ := OpenAI.Match("POST", path)
			r, err := ReadBody(call, body)
			if err != nil {
				continue
			}
			// A parser that ignores the case of names must read the same model.
			var v struct {
				Model      string
				Background bool
			}
			if err := json.Unmarshal(r.Body, &v); err != nil || v.Model != r.Model || v.Background {
				t.Fatalf("read as %q, means %q, %v: %q", r.Model, v.Model, err, body)
			}
		}
	})
}
