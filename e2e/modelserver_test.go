//go:build agents

package e2e

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// model stands in for the model services of agents, each in its own format: the
// Messages API of Anthropic, the Responses and Chat Completions APIs of OpenAI and
// generateContent of Gemini. It has an agent take the steps of a script, one tool call
// each, and says that it is done after the last.
//
// It holds no conversation: which step is next follows from how many results of tools
// a request has, so a request that is sent again gets the same answer.
type model struct {
	mu      sync.Mutex
	script  []step
	before  int           // results that the conversation had before the script; -1: the next request says it
	first   time.Time     // when the script was first asked for
	asked   []string      // paths and tools, to say what an agent wanted if it fails
	calls   []string      // the tools of the script's steps
	name    string        // the model that the script was asked of
	seen    []string      // what the last request has of results
	polis   bool          // a request has the text of polis for models
	longest string        // the request with the longest conversation
	thinks  time.Duration // before each answer
	// answers were reported with tokens, keys are those that requests had.
	answers int64
	keys    []string
	// words are what the test listens for, and whether a request had it.
	words map[string]bool
	// held is closed when the answers that are held back are given; nil if none are. waiting are their requests.
	held    chan struct{}
	waiting int
}

// obj is a JSON object.
type obj = map[string]any

// ask is what a request has in every format.
type ask struct {
	model   string // "": the address has it
	stream  bool
	tools   []tool
	results []string // of the tools, as text, in order
	schema  obj      // of the answer, if it is to be JSON
}

// turn is the answer: words, or one call.
type turn struct {
	words string
	call  *tool
	input obj    // the call's arguments
	free  string // the argument of a tool that takes text instead
	id    string
}

const done = "It is done."

// family is one format of requests and answers.
type family struct {
	suffix string
	read   func(body []byte) ask
	write  func(w http.ResponseWriter, t turn, stream bool)
}

var families = []family{
	{"/messages", readMessages, writeMessages},
	{"/responses", readResponses, writeResponses},
	{"/chat/completions", readCompletions, writeCompletions},
	{":streamGenerateContent", readGenerate, func(w http.ResponseWriter, t turn, _ bool) { writeGenerate(w, t, true) }},
	{":generateContent", readGenerate, writeGenerate},
}

func startModel(t *testing.T) (*model, int) {
	m := &model{}
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	var port int
	if _, err := fmt.Sscanf(s.URL, "http://127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	return m, port
}

// play sets the steps of the next task.
func (m *model) play(script ...step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script, m.before, m.first, m.asked, m.calls, m.name, m.seen = script, -1, time.Time{}, nil, nil, "", nil
}

// played reports when the script was first asked for, and the results of its steps.
func (m *model) played() (time.Time, []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.first, m.seen
}

// tools are those of the script's steps, but for shells.
func (m *model) tools() (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, name := range m.calls {
		if m.script[i].kind != "shell" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// used is the model that the script was asked of, earlier how many results the session had before it.
func (m *model) used() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.name
}

func (m *model) earlier() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.before
}

// knowsPolis reports whether a request had the text of polis for models.
func (m *model) knowsPolis() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.polis
}

// heard is the request with the longest conversation.
func (m *model) heard() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.longest
}

// log is what was asked.
func (m *model) log() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.asked, "\n")
}

// ServeHTTP is part of http.Handler.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	body, _ := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	if strings.Contains(string(body), "in a sandbox of your own") {
		m.mu.Lock()
		m.polis = true
		m.mu.Unlock()
	}
	m.listenTo(string(body))
	m.mu.Lock()
	if len(body) > len(m.longest) {
		m.longest = string(body)
	}
	m.mu.Unlock()
	for _, f := range families {
		if strings.HasSuffix(r.URL.Path, f.suffix) {
			a := f.read(body)
			if a.model == "" {
				a.model = path.Base(strings.TrimSuffix(r.URL.Path, f.suffix))
			}
			t := m.next(a, at)
			m.note("%s %s, %d results, answered %s", r.Method, r.URL.Path, len(a.results), t)
			m.think(r)
			m.count(r)
			f.write(w, t, a.stream)
			return
		}
	}
	m.note("%s %s", r.Method, r.URL.Path)
	switch {
	case strings.HasSuffix(r.URL.Path, "/count_tokens"):
		fmt.Fprint(w, `{"input_tokens":10}`)
	case strings.HasSuffix(r.URL.Path, ":countTokens"):
		fmt.Fprint(w, `{"totalTokens":10}`)
	case strings.HasSuffix(r.URL.Path, "/models"):
		fmt.Fprint(w, `{"object":"list","data":[{"id":"stand-in","object":"model"}]}`)
	default:
		http.NotFound(w, r)
	}
}

// think takes the time that a model needs for an answer.
func (m *model) think(r *http.Request) {
	m.wait(r)
	m.mu.Lock()
	t := m.thinks
	m.mu.Unlock()
	if t == 0 {
		return
	}
	select {
	case <-time.After(t):
	case <-r.Context().Done():
	}
}

// count counts an answer, before it is sent.
func (m *model) count(r *http.Request) {
	key := cmp.Or(r.Header.Get("X-Api-Key"), r.Header.Get("X-Goog-Api-Key"), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answers++; !slices.Contains(m.keys, key) {
		m.keys = append(m.keys, key)
	}
}

// slow sets how long each answer takes.
func (m *model) slow(t time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.thinks = t
}

func (m *model) note(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, fmt.Sprintf(format, args...))
}

// next is the answer to a request that arrived at a time.
func (m *model) next(a ask, at time.Time) turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.schema != nil { // Gemini CLI asks which model suits the task, and repeats for 95 s what it cannot read
		return turn{words: text(fill(a.schema, nil))}
	}
	if len(a.tools) == 0 || len(m.script) == 0 {
		return turn{words: done} // a title for the session, a summary
	}
	if m.before < 0 {
		m.before, m.first, m.name = len(a.results), at, a.model
	}
	if len(a.results) < m.before {
		return turn{words: done} // another conversation
	}
	n := len(a.results) - m.before
	m.seen = a.results[m.before:]
	if n >= len(m.script) {
		return end(a.tools)
	}
	t := m.script[n].turn(a.tools)
	t.id = fmt.Sprintf("call_%d", len(a.results)+1)
	if n == len(m.calls) {
		m.calls = append(m.calls, t.String())
	}
	return t
}

// String returns what was answered, for the log of a test.
func (t turn) String() string {
	if t.call == nil {
		return "words"
	}
	return t.call.name
}
