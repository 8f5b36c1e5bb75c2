package steps

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
)

// Bounds of what is kept of one task.
const (
	// maxLine bounds a line that is parsed, in bytes: a longer one is skipped.
	maxLine = 1 << 20
	// maxText bounds a step, maxSay what the agent writes in one, in bytes.
	maxText = 300
	maxSay  = 4 << 10
	// MaxAnswer bounds the last text of an agent, in bytes.
	MaxAnswer = 16 << 10
	// MaxKept bounds the steps that are kept; the oldest go first.
	MaxKept = 50
	// maxOwn bounds the refusals of an agent's own rules that are kept.
	maxOwn = 20
	// maxPending bounds the calls whose end is awaited.
	maxPending = 64
)

// parser reads the lines of one format. It adds to the Stream.
type parser func(s *Stream, line []byte) bool

// parsers are the formats. Each names the program and the option whose output it is.
var parsers = map[string]parser{
	"acp":      (*Stream).acp,      // polisctl acp
	"claude":   (*Stream).claude,   // claude --output-format stream-json --verbose; qwen likewise
	"cline":    (*Stream).cline,    // cline --json
	"codex":    (*Stream).codex,    // codex exec --json
	"copilot":  (*Stream).copilot,  // copilot --output-format json
	"gemini":   (*Stream).gemini,   // gemini --output-format stream-json
	"opencode": (*Stream).opencode, // opencode run --format json
	"pi":       (*Stream).pi,       // pi --mode json
}

// Formats are the names of the formats, sorted.
func Formats() []string { return slices.Sorted(maps.Keys(parsers)) }

// Stream reads the output of one program. Set Now, and Root if paths are to be shown
// relative to it.
type Stream struct {
	// Root is the directory that the program works in.
	Root string
	Now  func() time.Time

	parse parser
	buf   []byte
	side  []byte // of the other output, see Text and Watch
	about string // what the line was about that Watch read before
	long  int    // bytes of a line that is too long, so far

	out     []api.Step // of this call
	kept    []api.Step
	total   int
	report  api.TaskReport
	said    string          // the last text that was shown
	partial strings.Builder // text that comes in pieces
	pending map[string]call // calls under way, by the program's identifiers
	added   int             // the number of the step that was added last, 0 if that was not kept
	late    bool            // calls are reported when they end, or some were forgotten
	ends    time.Time       // when a call ended last
	refused map[string]bool // calls that were counted as refused
	denied  []denial        // by polis, not reported yet; oldest first
}

// New returns a reader of the format, or nil if there is none of that name. Of the format
// "" it takes notes only.
func New(format string) *Stream {
	p := parsers[format]
	if p == nil && format != "" {
		return nil
	}
	return &Stream{Now: time.Now, parse: p, late: format == "opencode", pending: map[string]call{}, refused: map[string]bool{}}
}

// Reads reports whether the stream has a format: else only Note is called.
func (s *Stream) Reads() bool { return s.parse != nil }

// Write takes what the program printed and returns the steps that are complete.
func (s *Stream) Write(p []byte) []api.Step {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		end := i + 1
		if i < 0 {
			i, end = len(p), len(p)
		}
		switch {
		case s.long > 0 || len(s.buf)+i > maxLine:
			s.long += len(s.buf) + i
			s.buf = nil
		default:
			s.buf = append(s.buf, p[:i]...)
		}
		if end > i {
			s.line()
		}
		p = p[end:]
	}
	return s.take()
}

// Text takes what the program printed beside the stream, on its standard error.
func (s *Stream) Text(p []byte) []api.Step {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		end := i + 1
		if i < 0 {
			i, end = len(p), len(p)
		}
		s.side = append(s.side, p[:min(i, maxSay)]...)
		if end > i || len(s.side) >= maxSay {
			s.sideLine()
		}
		p = p[end:]
	}
	return s.take()
}

func (s *Stream) sideLine() {
	text := string(s.side)
	s.side = s.side[:0]
	s.add(api.StepText, text, false)
}

// End takes the output for complete.
func (s *Stream) End() []api.Step {
	s.sideLine()
	if len(s.buf) > 0 || s.long > 0 {
		s.line()
	}
	s.flush()
	return s.take()
}

// line reads the line that is complete.
func (s *Stream) line() {
	line, long := s.buf, s.long
	s.buf, s.long = s.buf[:0], 0
	if cap(line) > 64<<10 {
		s.buf = nil
	}
	switch {
	case long > 0:
		s.add(api.StepText, "(a line of "+size(long)+" is not shown)", false)
	case len(strings.TrimSpace(string(line))) == 0:
	case !s.parse(s, line):
		s.flush()
		s.add(api.StepText, string(line), false)
	}
}

// Note adds a step that the program does not know of, and returns it.
func (s *Stream) Note(kind api.StepKind, text string) api.Step {
	step := api.Step{Time: s.Now().UTC(), Kind: kind, Text: oneLine(text, maxText)}
	s.keep(step)
	return step
}

// Kept are the last steps, oldest first, and how many there were.
func (s *Stream) Kept() ([]api.Step, int) { return slices.Clone(s.kept), s.total }

// Report is what the program has reported of the task so far; nil if it is nothing.
func (s *Stream) Report() *api.TaskReport {
	r := s.report
	if r.Answer == "" && r.OwnRefusals == 0 && r.InputTokens == 0 && r.OutputTokens == 0 && r.CostUSD == 0 && r.Error == "" {
		return nil
	}
	r.OwnRefused = slices.Clone(r.OwnRefused)
	return &r
}

func (s *Stream) take() []api.Step {
	out := s.out
	s.out = nil
	return out
}

// add emits a step.
func (s *Stream) add(kind api.StepKind, text string, failed bool) {
	most := maxText
	if kind == api.StepSay || kind == api.StepText {
		most = maxSay
		text = lines(text, most)
	} else {
		text = oneLine(text, most)
	}
	s.added = 0
	if text == "" {
		return
	}
	step := api.Step{Time: s.Now().UTC(), Kind: kind, Text: text, Failed: failed}
	s.out = append(s.out, step)
	if kind != api.StepText { // whatever it is, it is no step; the log has it
		s.keep(step)
	}
}

func (s *Stream) keep(step api.Step) {
	step.Text = cut(step.Text, maxText)
	s.total++
	s.added = s.total
	s.kept = append(s.kept, step)
	if over := len(s.kept) - MaxKept; over > 0 {
		s.kept = slices.Delete(s.kept, 0, over)
	}
}
