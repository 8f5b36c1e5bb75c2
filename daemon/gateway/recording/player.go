package recording

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"unicode/utf8"

	"polis/daemon/api"
)

// Bounds of a replay.
const (
	// maxRepeats is how often a recorded answer is given to requests that repeat its request.
	maxRepeats = 3
	// maxDifferences bounds the differences that are kept.
	maxDifferences = 32
	// shownText is how much of a text a difference shows, in characters.
	shownText = 60
)

// Summary is the result of a replay's requests.
type Summary = api.ReplayCounts

// Player answers requests from a recording.
type Player struct {
	f       *os.File
	size    int64
	byOrder bool
	norm    func(Request) key

	mu    sync.Mutex
	all   []*exchange
	asked int
	sum   Summary
}

// Options of a replay.
type Options struct {
	// Agents are the names of the recorded agent and of the replaying one.
	Agents []string
	// ByOrder answers a request that the recording does not have with the next one of its endpoint.
	ByOrder bool
}

// Open reads a recording for a replay. Close ends it.
func Open(path string, o Options) (*Player, error) {
	f, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("open the recording: %w", err)
	}
	st, err := f.Stat()
	of := names(o.Agents)
	p := &Player{f: f, byOrder: o.ByOrder, norm: func(r Request) key { return keyOf(r, of) }}
	if err == nil {
		p.size = st.Size()
		p.all, _, err = load(io.NewSectionReader(f, 0, p.size), of)
	}
	if err != nil {
		_ = f.Close() //nolint:errcheck // it was read only
		return nil, fmt.Errorf("read the recording: %w", err)
	}
	p.sum.Recorded = len(p.all)
	return p, nil
}

// Close closes the recording.
func (p *Player) Close() error { return p.f.Close() }

// Summary returns the result of the requests so far.
func (p *Player) Summary() Summary {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sum
	s.Differences = slices.Clone(s.Differences)
	return s
}

// Playback is a recorded answer.
type Playback struct {
	// Answer has Status 0 if the request got none.
	Answer
	// Cut: the answer did not come to its end.
	Cut bool
	p   *Player
	e   *exchange
}

// Body calls each with the chunks of the answer, in order. each must not keep them.
func (b *Playback) Body(each func([]byte) error) error { return b.e.body(b.p.f, b.p.size, each) }

// Find returns the recorded answer to a request. If there is none, it returns how the request differs
// from the recorded ones.
func (p *Player) Find(r Request) (*Playback, string) {
	k := p.norm(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	e := p.best(k, r.Method)
	switch {
	case e == nil && p.byOrder:
		if e = p.next(k.endpoint); e != nil {
			p.sum.Ordered++
			p.differs(p.difference(r, k, e))
			break
		}
		fallthrough
	case e == nil:
		why := p.difference(r, k, p.next(k.endpoint))
		p.sum.Unmatched++
		p.differs(why)
		return nil, why
	case e.used == 0:
		p.sum.Matched++
	default:
		p.sum.Repeated++
	}
	e.used++
	b := &Playback{p: p, e: e, Cut: !e.ended}
	if e.answer != nil {
		b.Answer = *e.answer
	}
	return b, ""
}

// best returns the exchange that a request is; nil if there is none. p.mu is held.
func (p *Player) best(k key, method string) *exchange {
	var found *exchange
	most := -1
	for _, e := range p.all {
		if e.used == 0 && e.key.endpoint == k.endpoint && e.key.hash == k.hash {
			if n := alike(k, e.key); n > most {
				found, most = e, n
			}
		}
	}
	if found != nil {
		return found
	}
	for _, e := range slices.Backward(p.all) {
		// A GET is the same however often it comes.
		if e.used > 0 && (e.used <= maxRepeats || method == "GET") && e.key.same(k) {
			return e
		}
	}
	return nil
}

// alike is how much two requests with the same last message have in common.
func alike(a, b key) (n int) {
	for _, same := range []bool{a.tools == b.tools, a.system == b.system, a.turn == b.turn, a.first == b.first} {
		if same {
			n += 2
		}
	}
	if a.stream == b.stream {
		n++
	}
	return n
}

// next returns the first exchange of an endpoint that was not requested yet. p.mu is held.
func (p *Player) next(endpoint string) *exchange {
	i := slices.IndexFunc(p.all, func(e *exchange) bool { return e.used == 0 && e.key.endpoint == endpoint })
	if i < 0 {
		return nil
	}
	return p.all[i]
}

func (p *Player) differs(why string) {
	if len(p.sum.Differences) < maxDifferences {
		p.sum.Differences = append(p.sum.Differences, why)
	}
}

// difference says how a request differs from a recorded one; nil: from all of them. p.mu is held.
func (p *Player) difference(r Request, k key, e *exchange) string {
	what := fmt.Sprintf("request %d of the replay (%s %s of %s", p.asked, r.Method, shown(r.Path, 0), shown(r.Service, 0))
	if r.Model != "" {
		what += ", model " + shown(r.Model, 0)
	}
	what += ")"
	if e == nil {
		left := 0
		for _, e := range p.all {
			if e.used == 0 {
				left++
			}
		}
		return fmt.Sprintf("%s is not in the recording: no request to this address with this model is left there; %d others are", what, left)
	}
	last, err := e.last(p.f, p.size, p.norm)
	if err != nil {
		return fmt.Sprintf("%s differs from request %d of the recording, which would be next and cannot be read: %v", what, e.n, err)
	}
	at := common(k.last, last)
	return fmt.Sprintf("%s differs from request %d of the recording, which would be next, at byte %d of its last message: recorded %q, now %q",
		what, e.n, at, shown(last, at), shown(k.last, at))
}

// common is how long the beginning is that two texts have in common.
func common(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			n = i
			break
		}
	}
	for n > 0 && n < len(a) && !utf8.RuneStart(a[n]) {
		n--
	}
	return n
}

// shown is the part of a text from a little before a place.
func shown(text string, at int) string {
	from := max(0, cmp.Or(at, 0)-shownText/3)
	for from > 0 && !utf8.RuneStart(text[from]) {
		from--
	}
	r := []rune(text[from:])
	return string(r[:min(len(r), shownText)])
}
