package recording

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// recorder is a Writer, and what it said.
type recorder struct {
	*Writer
	said []string
}

func newRecorder(t testing.TB, bytes int64) *recorder {
	r := &recorder{}
	r.Writer = &Writer{Logs: t.TempDir(), Now: time.Now, Stopped: func(task, why string) { r.said = append(r.said, task+": "+why) }}
	r.Limit(bytes)
	t.Cleanup(r.Close)
	return r
}

func chat(model string, messages ...string) Request {
	return Request{Service: "main", Kind: "openai", Method: "POST", Path: "/v1/chat/completions", Model: model,
		Body: []byte(`{"model":"` + model + `","messages":[` + strings.Join(messages, ",") + `]}`)}
}

func user(text string) string      { return fmt.Sprintf(`{"role":"user","content":%q}`, text) }
func assistant(text string) string { return fmt.Sprintf(`{"role":"assistant","content":%q}`, text) }
func result(id, text string) string {
	return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, id, text)
}

// exchange records a request and its answer.
func (r *recorder) exchange(task string, q Request, chunks ...string) {
	x := r.Begin(task, q)
	x.Answer(Answer{Status: 200, Header: map[string]string{"Content-Type": "text/event-stream"}})
	for _, c := range chunks {
		x.Data([]byte(c))
	}
	x.End(false)
}

func (r *recorder) player(t testing.TB, task string, o Options) *Player {
	p, err := Open(File(r.Logs, task), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func chunks(t testing.TB, b *Playback) (out []string) {
	require.NotNil(t, b)
	require.NoError(t, b.Body(func(c []byte) error { out = append(out, string(c)); return nil }))
	return out
}

func TestAnswersComeBackInTheirChunks(t *testing.T) {
	r := newRecorder(t, 1<<20)
	x, y := r.Begin("a.1", chat("m", user("one"))), r.Begin("a.1", chat("m", user("two")))
	x.Answer(Answer{Status: 200})
	y.Answer(Answer{Status: 529, Header: map[string]string{"Retry-After": "1"}})
	x.Data([]byte("o"))
	y.Data([]byte("\x00\xfft"))
	x.Data([]byte("ne"))
	y.End(true)
	x.End(false)
	x.End(true)
	x.Data([]byte("late"))
	r.Begin("a.1", chat("m", user("three"))) // no answer
	st, err := os.Stat(File(r.Logs, "a.1"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())

	p := r.player(t, "a.1", Options{})
	b, _ := p.Find(chat("m", user("two")))
	require.Equal(t, []string{"\x00\xfft"}, chunks(t, b))
	require.Equal(t, Answer{Status: 529, Header: map[string]string{"Retry-After": "1"}}, b.Answer)
	require.True(t, b.Cut)
	b, _ = p.Find(chat("m", user("one")))
	require.Equal(t, []string{"o", "ne"}, chunks(t, b))
	require.False(t, b.Cut)
	b, _ = p.Find(chat("m", user("three")))
	require.Empty(t, chunks(t, b))
	require.Zero(t, b.Status)
	require.True(t, b.Cut)
	require.Equal(t, Summary{Recorded: 3, Matched: 3}, p.Summary())
	i, err := Stat(File(r.Logs, "a.1"))
	require.NoError(t, err)
	require.Equal(t, Info{Exchanges: 3, Cut: 2, Bytes: st.Size()}, i)
}

func TestEachTaskHasItsRecording(t *testing.T) {
	r := newRecorder(t, 1<<20)
	require.Nil(t, r.Begin("", chat("m", user("no task"))))
	late := r.Begin("a.1", chat("m", user("one")))
	r.exchange("a.2", chat("m", user("two")), "2")
	late.Answer(Answer{Status: 200})
	late.Data([]byte("1"))
	late.End(false)
	b, _ := r.player(t, "a.1", Options{}).Find(chat("m", user("one")))
	require.Equal(t, []string{"1"}, chunks(t, b), "its answer came when the next task had begun")
	require.Equal(t, 1, r.player(t, "a.2", Options{}).Summary().Recorded)
	r.Close()
	require.Nil(t, r.Begin("a.2", chat("m", user("closed"))))
}

func TestAFullRecordingSaysSo(t *testing.T) {
	r := newRecorder(t, 8<<10)
	r.exchange("a.1", chat("m", user("one")), "1")
	r.exchange("a.1", chat("m", user("two")), strings.Repeat("x", 9<<10))
	r.exchange("a.1", chat("m", user("three")), "3")
	require.Len(t, r.said, 1)
	i, err := Stat(File(r.Logs, "a.1"))
	require.NoError(t, err)
	require.Equal(t, 2, i.Exchanges)
	require.Equal(t, 1, i.Cut)
	require.NotEmpty(t, i.Stopped)
	require.Less(t, i.Bytes, int64(8<<10))
	r.exchange("a.2", chat("m", user("three")), "3")
	require.Equal(t, 1, r.player(t, "a.2", Options{}).Summary().Recorded, "the next task has its own")
}

func TestARecordingThatCannotBeWrittenHarmsNothing(t *testing.T) {
	r := newRecorder(t, 1<<20)
	require.NoError(t, os.WriteFile(filepath.Join(r.Logs, DirName), nil, 0o600))
	r.exchange("a.1", chat("m", user("one")), "1")
	require.Len(t, r.said, 1)
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(other, []byte("precious"), 0o600))
	r = newRecorder(t, 1<<20)
	require.NoError(t, os.Mkdir(filepath.Join(r.Logs, DirName), 0o700))
	require.NoError(t, os.Symlink(other, File(r.Logs, "a.1")))
	r.exchange("a.1", chat("m", user("one")), "1")
	b, err := os.ReadFile(other)
	require.NoError(t, err)
	require.Equal(t, "precious", string(b))
}

// TestACrashLosesOnlyTheLastLine: a recording that ends anywhere is read up to its last whole line, and
// the next shim continues after that.
func TestACrashLosesOnlyTheLastLine(t *testing.T) {
	r := newRecorder(t, 1<<20)
	for i := range 4 {
		r.exchange("a.1", chat("m", user(fmt.Sprint("one", i))), "1", "2")
	}
	r.Close()
	whole, err := os.ReadFile(File(r.Logs, "a.1"))
	require.NoError(t, err)
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, len(whole)).Draw(rt, "bytes")
		logs, err := os.MkdirTemp(t.TempDir(), "")
		require.NoError(rt, err)
		require.NoError(rt, os.Mkdir(filepath.Join(logs, DirName), 0o700))
		require.NoError(rt, os.WriteFile(File(logs, "a.1"), whole[:n], 0o600))
		before, err := Stat(File(logs, "a.1"))
		require.NoError(rt, err)
		w := &recorder{Writer: &Writer{Logs: logs, Now: time.Now, Stopped: func(string, string) {}}}
		w.Limit(1 << 20)
		w.exchange("a.1", chat("m", user("after")), "3", "4")
		w.Close()
		p, err := Open(File(logs, "a.1"), Options{})
		require.NoError(rt, err)
		defer p.Close()
		require.Equal(rt, before.Exchanges+1, p.Summary().Recorded)
		b, why := p.Find(chat("m", user("after")))
		require.Empty(rt, why)
		var got []byte
		require.NoError(rt, b.Body(func(c []byte) error { got = append(got, c...); return nil }))
		require.Equal(rt, "34", string(got))
	})
}

func FuzzRecording(f *testing.F) {
	r := newRecorder(f, 1<<20)
	r.exchange("a.1", chat("m", user("one")), "1")
	b, err := os.ReadFile(File(r.Logs, "a.1"))
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte("{}\n"))
	f.Add(append(bytes.Clone(b), b...))
	f.Add([]byte(`{"x":0,"request":{"method":"POST"},"body":"AAAA"}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "x.jsonl")
		require.NoError(t, os.WriteFile(path, b, 0o600))
		p, err := Open(path, Options{Agents: []string{"a"}, ByOrder: true})
		if err != nil {
			return
		}
		defer p.Close()
		n := p.Summary().Recorded
		for range n + 2 {
			if got, _ := p.Find(chat("m", user("one"))); got != nil {
				_ = got.Body(func([]byte) error { return nil })
			}
		}
		require.LessOrEqual(t, p.Summary().Matched+p.Summary().Ordered, n)
	})
}
