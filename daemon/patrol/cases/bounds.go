package cases

import (
	"strings"

	"polis/daemon/api"
)

// bounded cuts what a case says to what is kept of it. An agent can have chosen a part of it, such
// as paths.
func bounded(c api.Case) api.Case {
	evidence := []string{}
	for _, e := range c.Evidence[:min(len(c.Evidence), maxEvidence)] {
		evidence = append(evidence, oneLine(e))
	}
	c.Evidence = evidence
	c.Kind, c.Incident, c.Task = oneLine(c.Kind), oneLine(c.Incident), oneLine(c.Task)
	c.Resolves, c.Next = oneLine(c.Resolves), oneLine(c.Next)
	return c
}

// oneLine shortens a text, and replaces what would end its line.
func oneLine(s string) string {
	return api.Shorten(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s), maxText)
}
