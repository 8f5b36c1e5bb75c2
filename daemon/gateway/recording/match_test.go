package recording

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWhatVariesDoesNotCount(t *testing.T) {
	for name, c := range map[string]struct {
		recorded, now string
		same          bool
	}{
		"the same":                {"fix the bug", "fix the bug", true},
		"another text":            {"fix the bug", "fix a bug", false},
		"another number":          {"2 tests failed", "3 tests failed", false},
		"dates":                   {"Today's date is 2026-01-02.", "Today's date is 2027-11-30.", true},
		"dates in words":          {"It is Monday, January 5, 2026", "It is Tue, Nov 24, 2026", true},
		"times":                   {"at 2026-01-02T03:04:05.678Z, 9:15 PM", "at 2026-01-03T00:00:00Z, 10:02 AM", true},
		"how long it took":        {"ok  example.com/x  0.012s", "ok  example.com/x  1.5s", true},
		"commits":                 {"[agent/a 1a2b3c4] work", "[agent/a ffee001] work", true},
		"ids":                     {"session 123e4567-e89b-12d3-a456-426614174000", "session 00000000-e89b-12d3-a456-426614174fff", true},
		"ids with a name":         {"Chunk ID: b1f75e\nWall", "Chunk ID: 1ee69c\nWall", true},
		"ids with other names":    {"session_id=ab1, requestId: \"x-1\" run id #7", "session_id=cd2, requestId: \"y-2\" run id #8", true},
		"a name of an id alone":   {"the id of x", "the id of y", false},
		"a word that ends so":     {"valid: yes", "valid: no", false},
		"a sentence about an id":  {"id: see above", "id: ask below", false},
		"a link to an id":         {"Chunk ID: b1f75e ok", "Chunk ID: 1ee69c failed", false},
		"addresses":               {"at 0x7ffee000", "at 0xc000123456", true},
		"processes":               {"Process Group PGID: 46, pid=7", "Process Group PGID: 41, pid=12", true},
		"temporary files":         {"wrote /tmp/go-build123/x", "wrote /tmp/go-build9/y", true},
		"the agents' names":       {"commit of ann in /w/ann/x", "commit of ann-replay in /w/ann-replay/x", true},
		"a name in another word":  {"annual", "{agent}ual", false},
		"white space":             {"a  b\n", "a b", true},
		"a word is no hash":       {"defaced", "effaced", true}, // seven letters of a to f: as a short commit
		"letters that are no hex": {"testing", "resting", false},
	} {
		t.Run(name, func(t *testing.T) {
			of := names([]string{"ann", "ann-replay"})
			require.Equal(t, c.same, normal(c.recorded, of) == normal(c.now, of), "%q %q", normal(c.recorded, of), normal(c.now, of))
		})
	}
}

// TestRequestsAreFoundInAllFormats: what counts is what follows the last message of the model.
func TestRequestsAreFoundInAllFormats(t *testing.T) {
	for name, c := range map[string]struct{ recorded, same, other string }{
		"messages": {
			`{"system":"s","messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"t1"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}]}`,
			`{"messages":[{"role":"user","content":"go, other"},{"role":"assistant","content":[{"type":"tool_use","id":"t9"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t9","content":"ok","cache_control":{}}]}]}`,
			`{"messages":[{"role":"user","content":"go"},{"role":"assistant","content":"x"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"no"}]}]}`,
		},
		"chat with two results": {
			`{"messages":[` + strings.Join([]string{user("go"), assistant("x"), result("a", "1"), result("b", "2")}, ",") + `]}`,
			`{"messages":[` + strings.Join([]string{user("go"), assistant("y"), result("c", "1"), result("d", "2")}, ",") + `]}`,
			`{"messages":[` + strings.Join([]string{user("go"), assistant("x"), result("a", "2"), result("b", "2")}, ",") + `]}`,
		},
		"responses": {
			`{"input":[{"role":"user","content":"go"},{"type":"reasoning","id":"r"},{"type":"function_call","call_id":"c"},{"type":"function_call_output","call_id":"c","output":"ok"}]}`,
			`{"input":[{"role":"user","content":"go"},{"type":"function_call","call_id":"d"},{"type":"function_call_output","call_id":"d","output":"ok"}]}`,
			`{"input":"ok"}`,
		},
		"gemini": {
			`{"contents":[{"role":"user","parts":[{"text":"go"}]},{"role":"model","parts":[]},{"role":"user","parts":[{"functionResponse":{"id":"1","response":{"output":"ok"}}}]}]}`,
			`{"contents":[{"role":"user","parts":[{"functionResponse":{"id":"2","response":{"output":"ok"}}}]}]}`,
			`{"contents":[{"role":"user","parts":[{"functionResponse":{"response":{"output":"no"}}}]}]}`,
		},
		"times as numbers": {
			`{"input":[{"role":"user","content":"go","create_time":1795430958.0187268,"n":7}]}`,
			`{"input":[{"role":"user","content":"go","create_time":1795430978.5151443,"n":7}]}`,
			`{"input":[{"role":"user","content":"go","create_time":1795430958.0187268,"n":8}]}`,
		},
		"no conversation": {`{"prompt":"a"}`, `{"prompt": "a"}`, `{"prompt":"b"}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t, 1<<20)
			q := chat("m")
			q.Body = []byte(c.recorded)
			r.exchange("a.1", q, "1")
			p := r.player(t, "a.1", Options{})
			q.Body = []byte(c.other)
			b, why := p.Find(q)
			require.Nil(t, b)
			require.Contains(t, why, "request 1 of the replay")
			q.Body = []byte(c.same)
			b, why = p.Find(q)
			require.Empty(t, why)
			require.Equal(t, []string{"1"}, chunks(t, b))
			require.Equal(t, 1, p.Summary().Unmatched)
		})
	}
}

func TestARequestThatIsNotRecordedSaysHowItDiffers(t *testing.T) {
	r := newRecorder(t, 1<<20)
	r.exchange("a.1", chat("m", user("work on main.txt")), "1")
	p := r.player(t, "a.1", Options{})
	_, why := p.Find(chat("m", user("work on other.txt")))
	require.Contains(t, why, `differs from request 1 of the recording`)
	require.Contains(t, why, "main.txt")
	require.Contains(t, why, "other.txt")
	_, why = p.Find(chat("n", user("work on main.txt")))
	require.Contains(t, why, "no request to this address with this model is left")
	for range 2 * maxDifferences {
		p.Find(chat("n", user("x")))
	}
	require.Len(t, p.Summary().Differences, maxDifferences)
	require.Equal(t, 2*maxDifferences+2, p.Summary().Unmatched)
}

func TestByOrderTheNextAnswerIsGivenAndReported(t *testing.T) {
	r := newRecorder(t, 1<<20)
	r.exchange("a.1", chat("m", user("one")), "1")
	r.exchange("a.1", chat("m", user("two")), "2")
	p := r.player(t, "a.1", Options{ByOrder: true})
	b, _ := p.Find(chat("m", user("two")))
	require.Equal(t, []string{"2"}, chunks(t, b), "one that is recorded is found first")
	b, _ = p.Find(chat("m", user("another")))
	require.Equal(t, []string{"1"}, chunks(t, b))
	b, why := p.Find(chat("m", user("yet another")))
	require.Nil(t, b)
	require.NotEmpty(t, why)
	s := p.Summary()
	require.Equal(t, Summary{Recorded: 2, Matched: 1, Ordered: 1, Unmatched: 1, Differences: s.Differences}, s)
	require.Len(t, s.Differences, 2)
}

// TestRequestsThatAreAlikeGetTheirOwnAnswers: a title for the session has the same last message as the
// task, and no tools.
func TestRequestsThatAreAlikeGetTheirOwnAnswers(t *testing.T) {
	r := newRecorder(t, 1<<20)
	with := func(body string) Request {
		q := chat("m")
		q.Body = []byte(`{"messages":[` + user("do it") + `]` + body + `}`)
		return q
	}
	title, work := with(`,"system":"Make a title"`), with(`,"system":"You are an agent","tools":[{"name":"bash"}]`)
	r.exchange("a.1", title, "title")
	r.exchange("a.1", work, "work")
	p := r.player(t, "a.1", Options{})
	b, _ := p.Find(work)
	require.Equal(t, []string{"work"}, chunks(t, b))
	b, _ = p.Find(title)
	require.Equal(t, []string{"title"}, chunks(t, b))
	for range maxRepeats {
		b, _ = p.Find(work)
		require.Equal(t, []string{"work"}, chunks(t, b), "the same request again")
	}
	b, why := p.Find(work)
	require.Nil(t, b, "but not without end")
	require.NotEmpty(t, why)
	require.Equal(t, maxRepeats, p.Summary().Repeated)
}

// TestAReplayOfTheSameRequestsMatchesAll, whatever the requests are and in whatever order programs that
// work at the same time send them.
func TestAReplayOfTheSameRequestsMatchesAll(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRecorder(t, 1<<20)
		texts := rapid.SliceOfN(rapid.StringMatching(`[a-c ]{0,3}`), 1, 12).Draw(rt, "texts")
		var all []Request
		for i, text := range texts {
			q := chat(rapid.SampledFrom([]string{"m", "n"}).Draw(rt, "model"), user(text), assistant("x"), user(text))
			all = append(all, q)
			r.exchange("a.1", q, fmt.Sprint(i))
		}
		p := r.player(t, "a.1", Options{})
		got := map[string]bool{}
		for _, q := range rapid.Permutation(all).Draw(rt, "order") {
			b, why := p.Find(q)
			require.Empty(rt, why)
			got[strings.Join(chunks(t, b), "")] = true
		}
		require.Len(rt, got, len(all), "each answer is given once")
		require.Equal(rt, Summary{Recorded: len(all), Matched: len(all)}, p.Summary())
	})
}
