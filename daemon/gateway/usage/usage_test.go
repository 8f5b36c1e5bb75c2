package usage

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/gateway/provider"
)

const (
	start = `data: {"type":"message_start","message":{"usage":{"input_tokens":25,"cache_creation_input_tokens":3,"cache_read_input_tokens":4,"output_tokens":1}}}` + "\n\n"
	delta = `data: {"type":"content_block_delta","delta":{"text":"say \"usage\": {\"output_tokens\": 999}"}}` + "\n\n"
	end   = `data: {"type":"message_delta","usage":{"output_tokens":15}}` + "\n\n"
)

func TestUsageOfEachFormat(t *testing.T) {
	for name, c := range map[string]struct {
		format    provider.Format
		stream    bool
		cut       bool
		answer    string
		want      Tokens
		estimated bool
	}{
		"messages":            {provider.FormatMessages, false, false, `{"usage":{"input_tokens":10,"output_tokens":20,"cache_read_input_tokens":5}}`, Tokens{Input: 10, Output: 20, CacheRead: 5}, false},
		"messages stream":     {provider.FormatMessages, true, false, start + delta + delta + end, Tokens{Input: 25, Output: 15, CacheRead: 4, CacheWrite: 3}, false},
		"messages cut":        {provider.FormatMessages, true, true, start + delta + delta, Tokens{Input: 25, Output: 2, CacheRead: 4, CacheWrite: 3}, true},
		"messages cut at end": {provider.FormatMessages, true, true, start + delta + end, Tokens{Input: 25, Output: 15, CacheRead: 4, CacheWrite: 3}, false},
		"messages cut before": {provider.FormatMessages, true, true, "", Tokens{Input: 101}, true},
		"messages CRLF":       {provider.FormatMessages, true, false, strings.ReplaceAll(start+end, "\n", "\r\n"), Tokens{Input: 25, Output: 15, CacheRead: 4, CacheWrite: 3}, false},
		"last line unended":   {provider.FormatMessages, true, false, start + strings.TrimSpace(end), Tokens{Input: 25, Output: 15, CacheRead: 4, CacheWrite: 3}, false},
		"chat":                {provider.FormatChat, false, false, `{"usage":{"prompt_tokens":10,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":4}}}`, Tokens{Input: 6, Output: 20, CacheRead: 4}, false},
		"embeddings":          {provider.FormatChat, false, false, `{"usage":{"prompt_tokens":10,"total_tokens":10}}`, Tokens{Input: 10}, false},
		"chat stream": {provider.FormatChat, true, false, "data: {\"choices\":[{\"delta\":{}}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":8}}\n\ndata: [DONE]\n\n",
			Tokens{Input: 7, Output: 8}, false},
		"chat without usage": {provider.FormatChat, true, false, "data: {\"choices\":[{\"delta\":{}}]}\n\ndata: [DONE]\n\n", Tokens{Input: 101, Output: 1}, true},
		"responses":          {provider.FormatResponses, false, false, `{"usage":{"input_tokens":10,"output_tokens":20,"input_tokens_details":{"cached_tokens":3}}}`, Tokens{Input: 7, Output: 20, CacheRead: 3}, false},
		"responses stream": {provider.FormatResponses, true, false, "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}}\n\n",
			Tokens{Input: 1, Output: 2}, false},
		"gemini": {provider.FormatGemini, false, false, `{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":6,"cachedContentTokenCount":2,"toolUsePromptTokenCount":1}}`,
			Tokens{Input: 9, Output: 11, CacheRead: 2}, false},
		"gemini stream": {provider.FormatGemini, true, false, "data: {\"usageMetadata\":{\"promptTokenCount\":10,\"candidatesTokenCount\":1}}\n\ndata: {\"usageMetadata\":{\"promptTokenCount\":10,\"candidatesTokenCount\":9}}\n\n",
			Tokens{Input: 10, Output: 9}, false},
		"gemini cut":                       {provider.FormatGemini, true, true, "data: {\"parts\":1,\"usageMetadata\":{\"promptTokenCount\":10,\"candidatesTokenCount\":3}}\n\n", Tokens{Input: 10, Output: 3}, true},
		"without usage":                    {provider.FormatMessages, false, false, `{}`, Tokens{Input: 101}, true},
		"gemini stream as a document":      {provider.FormatGemini, false, false, `[{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":1}}` + "\r\n," + `{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":9}}]`, Tokens{Input: 10, Output: 9}, false},
		"gemini document cut":              {provider.FormatGemini, false, true, `[{"candidates":[{"text":"` + strings.Repeat("word ", 60), Tokens{Input: 101, Output: 108}, true},
		"document cut":                     {provider.FormatMessages, false, true, `{"content":[{"text":"` + strings.Repeat("word ", 60), Tokens{Input: 101, Output: 107}, true},
		"events with much text":            {provider.FormatChat, true, true, `data: {"choices":[{"delta":{"content":"` + strings.Repeat("word ", 400) + `"}}]}` + "\n\n", Tokens{Input: 101, Output: 410}, true},
		"no JSON":                          {provider.FormatMessages, false, false, `<html>`, Tokens{Input: 101, Output: 2}, true},
		"numbers of no sense":              {provider.FormatMessages, false, false, `{"usage":{"input_tokens":-5,"output_tokens":1e300}}`, Tokens{Output: maxTokens}, false},
		"fractions":                        {provider.FormatMessages, false, false, `{"usage":{"input_tokens":5.5,"output_tokens":null}}`, Tokens{Input: 5, Output: 17}, true},
		"cut, with a request of no tokens": {provider.FormatMessages, true, true, `data: {"message":{"usage":{"input_tokens":0,"output_tokens":1}}}` + "\n\n", Tokens{Output: 1}, true},
		"no tokens":                        {provider.FormatNone, false, true, `{"usage":{"input_tokens":5}}`, Tokens{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 7, len(c.answer) + 1} {
				m := NewMeter(c.format, c.stream, 300)
				for p := []byte(c.answer); len(p) > 0; {
					n := min(size, len(p))
					wrote, err := m.Write(p[:n])
					require.NoError(t, err)
					require.Equal(t, n, wrote)
					p = p[n:]
				}
				got, estimated := m.End(c.cut)
				require.Equal(t, c.want, got)
				require.Equal(t, c.estimated, estimated)
			}
		})
	}
}

func TestAnAnswerThatIsTooLargeIsEstimated(t *testing.T) {
	m := NewMeter(provider.FormatMessages, false, 30)
	for range 5 {
		_, _ = m.Write(make([]byte, 1<<20))
		require.LessOrEqual(t, cap(m.kept), 2*MaxKept)
	}
	got, estimated := m.End(false)
	require.True(t, estimated)
	require.Equal(t, Tokens{Input: 11, Output: 5 << 20 / bytesPerToken}, got, "it is not free")

	m = NewMeter(provider.FormatMessages, true, 30)
	_, _ = m.Write([]byte(start + "data: "))
	for range 5 {
		_, _ = m.Write(make([]byte, 1<<20))
	}
	_, _ = m.Write([]byte("\n\n" + end))
	got, estimated = m.End(false)
	require.False(t, estimated)
	require.Equal(t, int64(15), got.Output, "the events after it count")
}

// Feature: multi-agent-workspaces, Property: how an answer is cut into reads changes no count
func TestReadsDoNotChangeTheCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{start, delta, end, ": ping\n\n", "\n", "data:\n"})).Draw(t, "events"), "")
		whole := NewMeter(provider.FormatMessages, true, 9)
		_, _ = whole.Write([]byte(text))
		parts := NewMeter(provider.FormatMessages, true, 9)
		for p := []byte(text); len(p) > 0; {
			n := min(rapid.IntRange(1, 90).Draw(t, "n"), len(p))
			_, _ = parts.Write(p[:n])
			p = p[n:]
		}
		a, ae := whole.End(false)
		b, be := parts.End(false)
		require.Equal(t, a, b)
		require.Equal(t, ae, be)
	})
}

func FuzzMeter(f *testing.F) {
	f.Add([]byte(start+delta+end), true, false)
	f.Add([]byte(`{"usage":{"input_tokens":1,"prompt_tokens":2},"usageMetadata":{"promptTokenCount":1}}`), false, true)
	f.Fuzz(func(t *testing.T, b []byte, stream, cut bool) {
		for _, format := range []provider.Format{provider.FormatMessages, provider.FormatChat, provider.FormatResponses, provider.FormatGemini} {
			m := NewMeter(format, stream, len(b))
			_, _ = m.Write(b)
			got, estimated := m.End(cut)
			split := NewMeter(format, stream, len(b))
			for i := range b { // at every byte
				_, _ = split.Write(b[i : i+1])
			}
			if other, e := split.End(cut); other != got || e != estimated {
				t.Fatalf("%s: %+v in one read, %+v byte by byte", format, got, other)
			}
			for _, n := range []int64{got.Input, got.Output, got.CacheRead, got.CacheWrite} {
				if n < 0 || n > 3*maxTokens {
					t.Fatalf("%+v", got)
				}
			}
		}
	})
}

// room is a Room.
type room struct{ left, least int64 }

func (r *room) TryAcquire(n int64) bool {
	if n > r.left {
		return false
	}
	r.left -= n
	r.least = min(r.least, r.left)
	return true
}

func (r *room) Release(n int64) { r.left += n }

func TestAnswersShareARoom(t *testing.T) {
	document := []byte(`{"data":"` + strings.Repeat("x", 1<<20) + `","usage":{"prompt_tokens":10}}`)
	r := &room{left: 4 << 20, least: 4 << 20}
	var all []*Meter
	for range 6 {
		m := NewMeter(provider.FormatChat, false, 30)
		m.Room = r
		for p := document; len(p) > 0; p = p[min(1000, len(p)):] {
			_, _ = m.Write(p[:min(1000, len(p))])
		}
		all = append(all, m)
	}
	require.Less(t, r.left, int64(1<<20))
	exact := 0
	for _, m := range all {
		got, estimated := m.End(false)
		if !estimated {
			exact++
			require.Equal(t, Tokens{Input: 10}, got)
		} else {
			require.Equal(t, Tokens{Input: 11, Output: int64(len(document)) / bytesPerToken}, got, "it is not free")
		}
	}
	require.Equal(t, 2, exact)
	require.Equal(t, int64(4<<20), r.left, "all is returned")

	// Events need none of it, a line that is longer does until it has ended, and one that finds none is estimated.
	m := NewMeter(provider.FormatMessages, true, 30)
	m.Room = r
	r.least = r.left
	for _, c := range []byte(start + delta) {
		_, _ = m.Write([]byte{c})
	}
	require.Equal(t, r.left, r.least)
	long := "data: " + strings.Repeat("x", 400_000)
	_, _ = m.Write([]byte(long))
	require.Less(t, r.left, int64(4<<20))
	_, _ = m.Write([]byte("\n\n"))
	require.Equal(t, int64(4<<20), r.left)
	r.left = 0
	_, _ = m.Write([]byte(long))
	_, _ = m.Write([]byte("\n\n"))
	got, estimated := m.End(true)
	require.True(t, estimated)
	require.Equal(t, Tokens{Input: 25, CacheRead: 4, CacheWrite: 3, Output: 1 + 1 + (400_000+6)/4}, got)
	require.Zero(t, r.left)
}
