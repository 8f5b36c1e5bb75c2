package usage

import (
	"bytes"
	"encoding/json"

	"polis/daemon/gateway/provider"
)

// MaxKept is the most that a Meter holds of an answer, in bytes: a document, or one event of a stream.
const MaxKept = 4 << 20

// bytesPerToken estimates a request that no answer reported the size of, and an answer that is no stream.
// Real texts have more bytes in a token, so the estimate is not too low.
const bytesPerToken = 3

// around is about how many bytes an event with content has beside its text. What an event has more is
// estimated as text of 4 bytes a token: an event is one token at least.
var around = map[provider.Format]int{provider.FormatMessages: 128, provider.FormatChat: 400, provider.FormatResponses: 400, provider.FormatGemini: 800}

// freeKept is what a Meter holds without asking Room, in bytes: nearly all events are shorter.
const freeKept = 64 << 10

// Room bounds what several Meters hold together, in bytes; *semaphore.Weighted is one.
type Room interface {
	TryAcquire(n int64) bool
	Release(n int64)
}

// A Meter counts the tokens of one answer. It is used by one goroutine.
type Meter struct {
	// Room bounds what it holds with others; nil: MaxKept alone does. What finds none is estimated, as what is longer
	// than MaxKept. End returns it.
	Room Room

	format  provider.Format
	stream  bool
	request int // bytes of the request's body

	size   int64  // bytes of the answer
	kept   []byte // the document, or the line that has not ended
	room   int64  // of Room, beside freeKept
	lost   bool   // it is longer than MaxKept, or Room has no more
	long   int64  // bytes of what is lost
	tokens Tokens
	final  bool  // the provider reported the whole answer
	input  bool  // it reported the request
	events int64 // with content, an estimate of the tokens so far
}

// NewMeter makes a Meter for an answer in the format. request is the size of the request's body in
// bytes, stream whether the answer consists of server-sent events.
func NewMeter(f provider.Format, stream bool, request int) *Meter {
	return &Meter{format: f, stream: stream, request: request}
}

// Write observes a part of the answer. It never fails.
func (m *Meter) Write(p []byte) (int, error) {
	n := len(p)
	if m.format == provider.FormatNone {
		return n, nil
	}
	m.size += int64(n)
	if !m.stream {
		m.keep(p)
		return n, nil
	}
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			m.keep(p)
			break
		}
		if len(m.kept) == 0 && !m.lost {
			m.line(p[:i]) // without a copy
		} else {
			m.keep(p[:i])
			m.endLine()
		}
		p = p[i+1:]
	}
	return n, nil
}

func (m *Meter) keep(p []byte) {
	if m.lost || !m.reserve(len(m.kept)+len(p)) {
		m.long += int64(len(m.kept) + len(p))
		m.drop()
		m.lost = true
		return
	}
	m.kept = append(m.kept, p...)
}

// reserve reports whether n bytes can be held. It asks for twice as much as it has.
func (m *Meter) reserve(n int) bool {
	have := freeKept + m.room
	switch {
	case n > MaxKept:
		return false
	case m.Room == nil || int64(n) <= have:
		return true
	}
	more := min(max(int64(n), 2*have), MaxKept) - have
	if !m.Room.TryAcquire(more) {
		return false
	}
	m.room += more
	return true
}

// drop holds nothing any more.
func (m *Meter) drop() {
	m.kept = nil
	if m.room > 0 {
		m.Room.Release(m.room)
		m.room = 0
	}
}

func (m *Meter) endLine() {
	if m.lost {
		m.events += 1 + m.long/4
	} else {
		m.line(m.kept)
	}
	m.kept, m.lost, m.long = m.kept[:0], false, 0
	if cap(m.kept) > freeKept {
		m.drop()
	}
}

var (
	dataField  = []byte("data:")
	usageField = []byte(`"usage`)
)

// line reads one line of a stream. A provider's event has all of its data in one.
func (m *Meter) line(l []byte) {
	data, ok := bytes.CutPrefix(l, dataField)
	if !ok {
		return
	}
	if m.content(data) {
		m.events += 1 + int64(max(0, len(data)-around[m.format]))/4
	}
	// Most events have content alone, and need no parser.
	if !bytes.Contains(data, usageField) {
		return
	}
	input, final := m.tokens.read(m.format, data)
	m.input = m.input || input
	// Each event of Gemini has the count so far: only the last one of an answer is whole, so an answer
	// that is cut is estimated from both.
	m.final = m.final || final
}

// content reports whether an event has a part of the model's text.
func (m *Meter) content(data []byte) bool {
	switch m.format {
	case provider.FormatMessages:
		return bytes.Contains(data, []byte(`"content_block_delta"`))
	case provider.FormatResponses:
		return bytes.Contains(data, []byte(`.delta"`))
	case provider.FormatChat:
		return bytes.Contains(data, []byte(`"delta"`)) || bytes.Contains(data, []byte(`"text"`))
	}
	return bytes.Contains(data, []byte(`"parts"`))
}

// End returns the tokens of the answer. cut: the answer did not reach its end. estimated reports
// whether the provider did not report all of it.
func (m *Meter) End(cut bool) (t Tokens, estimated bool) {
	if m.format == provider.FormatNone {
		return Tokens{}, false
	}
	switch {
	case m.stream && len(m.kept) > 0:
		m.endLine()
	case !m.stream && !m.lost:
		m.document()
	}
	m.drop()
	if m.final && (!cut || m.format != provider.FormatGemini) {
		return m.tokens, false
	}
	t = m.tokens
	if !m.input {
		t.Input = int64(m.request/bytesPerToken) + 1
	}
	t.Output = max(t.Output, m.events)
	if !m.stream {
		t.Output = max(t.Output, m.size/bytesPerToken)
	}
	return t, true
}

// document reads an answer that is no stream of events. Gemini has streams that are one array.
func (m *Meter) document() {
	var parts []json.RawMessage
	if m.format != provider.FormatGemini || json.Unmarshal(m.kept, &parts) != nil {
		parts = []json.RawMessage{m.kept}
	}
	for _, p := range parts {
		input, final := m.tokens.read(m.format, p)
		m.input, m.final = m.input || input, m.final || final
	}
}
