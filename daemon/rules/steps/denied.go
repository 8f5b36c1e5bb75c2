package steps

import (
	"slices"
	"strings"

	"polis/daemon/api"
)

const (
	// maxDenied bounds the denials of polis that the program has not reported yet.
	maxDenied = 64
	// minReason is the least length of a reason, in bytes, that is searched in what a call printed: a shorter one, such as
	// "no", is in many texts.
	minReason = 12
)

// denial is a call that polis denied. text is the step, reason what the program was given.
type denial struct{ call, text, reason string }

// Call is how steps show a call of a tool: for Denied.
func Call(root, tool string, input []byte) string {
	s := Stream{Root: root}
	return strings.Clone(oneLine(shown(s.tool(tool, input)), maxText)) // the caller keeps it, and not all of the input
}

// Denied notes that polis denied a call, by a person's answer or by a rule. The program, which learns of it now, may report
// it as a refusal or as a failure: that is neither one of its own rules nor another step. call is as Call returns it, text
// the step, "" if there is one already, reason what the program is given.
func (s *Stream) Denied(call, text, reason string) {
	if len(s.denied) >= maxDenied {
		s.denied = slices.Delete(s.denied, 0, 1)
	}
	s.denied = append(s.denied, denial{call, text, strings.TrimSpace(reason)})
}

// byPolis reports whether a refusal or failure that the program reports is one of polis', and makes it a step unless it is
// one already. what is the call, and message what it printed. Each denial is reported once.
func (s *Stream) byPolis(what, message string) bool {
	i := slices.IndexFunc(s.denied, func(d denial) bool {
		return d.call != "" && what == d.call || len(d.reason) >= minReason && strings.Contains(message, d.reason)
	})
	if i < 0 {
		return false
	}
	text := oneLine(s.denied[i].text, maxText)
	s.denied = slices.Delete(s.denied, i, i+1)
	if text != "" && !slices.ContainsFunc(s.kept, func(st api.Step) bool { return st.Kind == api.StepRefused && st.Text == text }) {
		s.add(api.StepRefused, text, true)
	}
	return true
}
