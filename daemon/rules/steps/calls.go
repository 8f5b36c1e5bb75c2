package steps

import (
	"strings"
	"time"

	"polis/daemon/api"
)

// say emits text of the agent, which is its answer until more text follows.
func (s *Stream) say(text string) {
	text = lines(text, MaxAnswer)
	if strings.TrimSpace(text) == "" || text == s.said {
		return
	}
	s.said, s.report.Answer = text, text
	s.add(api.StepSay, text, false)
}

// piece takes a part of the agent's text; whole lines of it are emitted by flush.
func (s *Stream) piece(text string) {
	if room := MaxAnswer - s.partial.Len(); room > 0 {
		s.partial.WriteString(text[:min(len(text), room)]) // what does not fit is no loss
	}
}

// flush emits what came in pieces.
func (s *Stream) flush() {
	if s.partial.Len() > 0 {
		s.say(s.partial.String())
		s.partial.Reset()
	}
}

// answer is the program's own word on what its answer is.
func (s *Stream) answer(text string) {
	if text = lines(text, MaxAnswer); strings.TrimSpace(text) != "" {
		s.say(text)
		s.report.Answer = text
	}
}

// call notes a call of a tool that begins.
func (s *Stream) call(id, name string, input []byte) {
	kind, text := s.tool(name, input)
	s.add(kind, text, false)
	s.await(id, shown(kind, text))
}

// await keeps what a call is until it ends.
func (s *Stream) await(id, what string) {
	if id == "" || len(id) > 256 {
		s.late = true
		return
	}
	if len(s.pending) >= maxPending {
		s.late = true
		clear(s.pending) // a program that ends none of its calls
	}
	s.pending[id] = call{oneLine(what, maxText), s.Now().UTC(), s.added}
}

// call is a call under way. step is the number of the step that it began, 0 if that was not kept.
type call struct {
	what  string
	since time.Time
	step  int
}

// Open returns the last call that has not ended, when it began, and how many there are.
func (s *Stream) Open() (what string, since time.Time, n int) {
	for _, c := range s.pending {
		if c.since.After(since) {
			what, since = c.what, c.since
		}
	}
	return what, since, len(s.pending)
}

// Begins reports whether each call that is under way is among those that Open counts.
func (s *Stream) Begins() bool { return !s.late }

// Ended returns when a call ended last; zero if none has.
func (s *Stream) Ended() time.Time { return s.ends }

// failed notes that a call ended with an error.
func (s *Stream) failed(id, message string) {
	what := s.finish(id, false)
	if s.byPolis(what, message) {
		if id != "" && len(s.refused) < 1<<10 {
			s.refused[id] = true
		}
		return
	}
	if what != "" {
		what += ": "
	}
	s.add(api.StepFailed, what+firstLine(message), true)
}

// ended notes that a call ended without an error.
func (s *Stream) ended(id string) { s.finish(id, true) }

// finish notes the end of a call at the step that it began, forgets it, and returns what it was.
func (s *Stream) finish(id string, passed bool) string {
	c, ok := s.pending[id]
	if !ok {
		return ""
	}
	delete(s.pending, id)
	s.ends = s.Now().UTC()
	if i := c.step - 1 - (s.total - len(s.kept)); c.step > 0 && i >= 0 {
		s.kept[i].Passed = passed
		if !s.late {
			s.kept[i].Took = s.ends.Sub(c.since).Round(100 * time.Millisecond).Seconds()
		}
	}
	return c.what
}

// deny notes that the program's own permission system refused a call, once for each id.
func (s *Stream) deny(id, what, why string) {
	if id != "" {
		if s.refused[id] {
			return
		}
		if len(s.refused) < 1<<10 {
			s.refused[id] = true
		}
	}
	if pending := s.finish(id, false); pending != "" {
		what = pending
	}
	what = oneLine(what, maxText)
	if s.byPolis(what, why) {
		return
	}
	s.report.OwnRefusals++
	if len(s.report.OwnRefused) < maxOwn {
		s.report.OwnRefused = append(s.report.OwnRefused, what)
	}
	text := "by its own rules: " + what
	if why = firstLine(why); why != "" {
		text += " (" + why + ")"
	}
	s.add(api.StepRefused, text, true)
}

// fail notes an error of the program itself.
func (s *Stream) fail(message string) {
	if message = oneLine(message, maxText); message == "" {
		return
	}
	s.report.Error = message
	s.add(api.StepFailed, message, true)
}
