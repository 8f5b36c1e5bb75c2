package steps

import (
	"bytes"
	"regexp"
	"strings"
)

// ownPrefixes and ownParts are how programs word that their own permission system has
// refused a call. Seen in: Claude Code 2.1, Cline 3.0, Copilot CLI 1.0, Gemini CLI 0.61,
// OpenCode 1.18, Codex 0.169.
var (
	ownPrefixes = []string{
		"Claude requested permissions to ",
		"Permission denied because no interactive user response was available",
		"Permission denied and could not request permission from user",
		"The user has specified a rule which prevents you from using this specific tool call",
		"Tool approval requires an interactive session",
		"The user rejected permission to use this specific tool call",
		"Tool execution denied by policy",
	}
	ownParts = []string{
		" has been denied.",
		" require approval",
		" requires approval",
		" rejected: blocked by policy",
		" requires user confirmation, which is not supported in non-interactive mode",
	}
)

// maxRule bounds how much of a message is searched, in bytes.
const maxRule = 1 << 10

// ownRules reports whether the error of a call is a refusal of the agent's own permission
// system.
func ownRules(message string) bool {
	message = strings.TrimPrefix(strings.TrimSpace(message[:min(len(message), maxRule)]), "Error: ")
	for _, p := range ownPrefixes {
		if strings.HasPrefix(message, p) {
			return true
		}
	}
	for _, p := range ownParts {
		if strings.Contains(message, p) {
			return true
		}
	}
	return false
}

// ownLines are the lines that programs print of such a refusal when their output is text.
// The group is the call, if the line has it.
var ownLines = []*regexp.Regexp{
	regexp.MustCompile(`^! permission requested: (.+); auto-rejecting$`),                                                                 // OpenCode
	regexp.MustCompile(`^└ Permission denied (?:because no interactive user response was available|and could not request permission)()`), // Copilot CLI
	regexp.MustCompile(`^Error executing tool ([^ :]+): Tool execution denied by policy`),                                                // Gemini CLI
}

// Watch finds the refusals of the agent's own permission system in output that is text.
func (s *Stream) Watch(p []byte) {
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		end := i + 1
		if i < 0 {
			i, end = len(p), len(p)
		}
		if room := maxRule - len(s.side); room > 0 {
			s.side = append(s.side, p[:min(i, room)]...)
		}
		if end > i {
			s.watched(oneLine(string(s.side), maxRule))
			s.side = s.side[:0]
		}
		p = p[end:]
	}
	s.take() // the output itself shows it
}

func (s *Stream) watched(line string) {
	if call, ok := strings.CutPrefix(line, "│ "); ok && s.about == "" {
		s.about = call // Copilot CLI draws the command that the next lines are about
		return
	}
	for _, re := range ownLines {
		if m := re.FindStringSubmatch(line); m != nil {
			what := m[1]
			if what == "" {
				what = s.about
			}
			if what == "" {
				what = "a call"
			}
			s.deny("", what, "")
		}
	}
	s.about = ""
}
