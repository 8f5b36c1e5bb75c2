package gateway

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/gateway/recording"
)

// recording returns the services with record, for an endpoint whose agent works on a task.
func recordAll(m wire.Models) wire.Models {
	m.RecordBytes = 1 << 20
	for i := range m.Models {
		m.Models[i].Record = true
	}
	return m
}

func newRecording(t *testing.T, m wire.Models) (e *endpoint, logs string) {
	e, logs = newEndpoint(t, wire.Models{}), t.TempDir()
	e.Work = working("ann.1")
	e.Recorder = &recording.Writer{Logs: logs, Now: time.Now, Stopped: func(string, string) {}}
	require.NoError(t, e.Set(recordAll(m)))
	return e, logs
}

func newReplay(t *testing.T, logs string, byOrder bool) *endpoint {
	m := all("https://nowhere.invalid")
	for i := range m.Models {
		m.Models[i].Key = ""
	}
	m.Replay = &wire.Replay{File: recording.File(logs, "ann.1"), Agents: []string{"ann", "bob"}, ByOrder: byOrder}
	return newEndpoint(t, m)
}

func (e *endpoint) replayed() api.ReplayCounts {
	r, ok := e.Replayed()
	require.True(e.t, ok)
	require.Empty(e.t, r.Error)
	return r.ReplayCounts
}

func TestAReplayAnswersWithoutAService(t *testing.T) {
	s := newStandIn(t)
	e, logs := newRecording(t, all(s.URL))
	requests := [][2]string{
		{"/anthropic/v1/messages", `{"model":"m","stream":true,"max_tokens":5,"in":7,"messages":[{"role":"user","content":"I am ann"}]}`},
		{"/openai/v1/chat/completions", `{"model":"m","stream":true,"max_tokens":3,"in":7,"messages":[{"role":"user","content":"hello"}]}`},
		{"/openai/v1/responses", `{"model":"m","max_tokens":3,"in":7,"input":"hello"}`},
		{"/gemini/v1beta/models/m:generateContent", `{"max_tokens":3,"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`},
	}
	want := map[string]string{}
	for _, q := range requests {
		code, body := e.post(q[0], q[1])
		require.Equal(t, 200, code)
		want[q[0]] = body
	}
	resp := e.do("GET", "/anthropic/v1/models", "")
	models, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())

	p := newReplay(t, logs, false)
	for _, q := range requests {
		resp := p.do("POST", q[0], strings.ReplaceAll(q[1], "ann", "bob"))
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want[q[0]], string(b))
		require.Equal(t, strings.Contains(q[1], `"stream"`), strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"))
	}
	for range 5 {
		resp := p.do("GET", "/anthropic/v1/models", "")
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, string(models), string(b))
	}
	require.Equal(t, api.ReplayCounts{Recorded: 5, Matched: 5, Repeated: 4}, p.replayed())
	require.Zero(t, p.total(), "nothing was used")

	code, body := p.post("/anthropic/v1/messages", `{"model":"m","messages":[{"role":"user","content":"I am carl"}]}`)
	require.Equal(t, 400, code)
	require.Contains(t, body, `"type":"error"`)
	require.Contains(t, body, CodeReplay)
	require.Contains(t, body, "request 10 of the replay")
	got := p.replayed()
	require.Equal(t, 1, got.Unmatched)
	require.Len(t, got.Differences, 1)
}

func TestARecordingHasNoKey(t *testing.T) {
	s := newStandIn(t)
	s.handle = func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"echo":%q,"usage":{"input_tokens":1,"output_tokens":1}}`, r.Header.Get("X-Api-Key"))
	}
	e, logs := newRecording(t, all(s.URL))
	code, _ := e.post("/anthropic/v1/messages", `{"model":"m","messages":[{"role":"user","content":"is it `+realKey+`?"}]}`, "X-Api-Key", realKey)
	require.Equal(t, 200, code)
	p, err := recording.Open(recording.File(logs, "ann.1"), recording.Options{})
	require.NoError(t, err)
	defer p.Close()
	b, why := p.Find(recording.Request{Service: "anthropic", Method: "POST", Path: "/v1/messages", Model: "m",
		Body: []byte(`{"model":"m","messages":[{"role":"user","content":"is it ` + strings.Repeat("*", len(realKey)) + `?"}]}`)})
	require.Empty(t, why, "the request was recorded without the key")
	require.NoError(t, b.Body(func(c []byte) error { require.NotContains(t, string(c), realKey); return nil }))
	raw, err := os.ReadFile(recording.File(logs, "ann.1"))
	require.NoError(t, err)
	require.NotContains(t, string(raw), realKey)
}

func TestFailuresAndCutAnswersAreReplayedAsTheyWere(t *testing.T) {
	s := newStandIn(t)
	e, logs := newRecording(t, all(s.URL))
	send := func(e *endpoint, text string) (int, string, error) {
		resp := e.do("POST", "/anthropic/v1/messages", `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"`+text+`"}]}`)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b), err
	}
	type answer struct {
		code int
		body string
		cut  bool
	}
	run := func(e *endpoint, before func(string)) (out []answer) {
		for _, text := range []string{"cut", "limited", "gone"} {
			before(text)
			code, body, err := send(e, text)
			out = append(out, answer{code, body, err != nil})
		}
		return out
	}
	was := run(e, func(text string) {
		switch s.cutAt = 4; text {
		case "limited":
			s.handle = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "slow down", http.StatusTooManyRequests) }
		case "gone":
			s.CloseClientConnections()
			s.Close()
		}
	})
	require.True(t, was[0].cut)
	require.Equal(t, 429, was[1].code)
	require.Equal(t, 502, was[2].code)
	require.Equal(t, was, run(newReplay(t, logs, false), func(string) {}))
}

func TestOnlyTasksOfServicesThatSaySoAreRecorded(t *testing.T) {
	s := newStandIn(t)
	e, logs := newRecording(t, all(s.URL))
	const body = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	e.Work = working("")
	e.post("/anthropic/v1/messages", body)
	e.Work = working("ann.1")
	require.NoError(t, e.Set(all(s.URL)))
	e.post("/anthropic/v1/messages", body)
	files, err := filepath.Glob(filepath.Join(logs, "*", "*"))
	require.NoError(t, err)
	require.Empty(t, files)
}

// TestAReplayNeverReachesAService, whatever becomes of its recording.
func TestAReplayNeverReachesAService(t *testing.T) {
	s := newStandIn(t)
	m := all(s.URL)
	m.Replay = &wire.Replay{File: filepath.Join(t.TempDir(), "gone")}
	e := newEndpoint(t, m)
	const body = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	code, text := e.post("/anthropic/v1/messages", body)
	require.Equal(t, 400, code)
	require.Contains(t, text, CodeReplay)
	r, ok := e.Replayed()
	require.True(t, ok)
	require.Contains(t, r.Error, "open the recording")
	require.Error(t, e.Set(all(s.URL)), "it does not become an agent with a service")
	code, _ = e.post("/anthropic/v1/messages", body)
	require.Equal(t, 400, code)
	require.Zero(t, s.requests)
}
