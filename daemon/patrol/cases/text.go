package cases

import (
	"fmt"
	"strings"

	"polis/daemon/api"
)

// maxNote bounds what a person writes when a case is resolved, in bytes.
const maxNote = 500

// CheckNote refuses a note that is not one line of bounded length.
func CheckNote(note string) error {
	if len(note) > maxNote || strings.ContainsFunc(note, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return api.Errorf(api.CodeBadRequest, "note: must be one line of at most %d bytes", maxNote)
	}
	return nil
}

// Event is the event for a change of a case.
func Event(what Change, c api.Case) api.Event {
	message := fmt.Sprintf("%s of agent %s (%s, %s): %s", c.ID, c.Agent, c.Kind, c.State, what)
	switch {
	case c.Resolution != nil && c.Resolution.How != "":
		message += ": " + c.Resolution.How
	case c.Resolution == nil:
		message += ": " + strings.Join(c.Evidence, "; ")
	}
	return api.Event{Type: api.EventCase, Agent: c.Agent, Message: message, Data: map[string]any{"case": c, "change": string(what)}}
}
