package steps

import "encoding/json"

// acpLine is a line of polisctl acp: an update of a session of the Agent Client Protocol, or a line
// of the driver's own (type).
type acpLine struct {
	Update string          `json:"sessionUpdate"`
	Raw    json.RawMessage `json:"content"`
	ID     string          `json:"toolCallId"`
	Title  string          `json:"title"`
	Kind   string          `json:"kind"`
	Status string          `json:"status"`
	Input  json.RawMessage `json:"rawInput"`
	Places []struct {
		Path string `json:"path"`
	} `json:"locations"`

	Type    string `json:"type"`
	Result  string `json:"result"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Stop    string `json:"stopReason"`
}

// acpTools are names of tools for the kinds of the protocol.
var acpTools = map[string]string{"read": "read", "edit": "edit", "delete": "edit", "move": "edit", "search": "search", "execute": "bash", "fetch": "fetch"}

func (s *Stream) acp(line []byte) bool {
	var l acpLine
	if json.Unmarshal(line, &l) != nil || l.Update == "" && l.Type == "" {
		return false
	}
	if l.Update == "agent_message_chunk" {
		s.piece(acpText(l.Raw))
		return true
	}
	if l.Update == "agent_thought_chunk" {
		return true
	}
	s.flush()
	switch {
	case l.Update == "tool_call":
		s.acpCall(l)
	case l.Update == "tool_call_update" && l.Status == "failed":
		s.failed(l.ID, acpText(l.Raw))
	case l.Update == "tool_call_update" && l.Status == "completed":
		s.ended(l.ID)
	case l.Type == "permission" && l.Result != "approve":
		s.failed(l.ID, "not approved: "+l.Reason)
	case l.Type == "error":
		s.fail(l.Message)
	case l.Type == "result" && l.Stop != "end_turn":
		s.fail("the turn ended by " + l.Stop)
	}
	return true
}

// acpCall notes a call. A program that sends no arguments names what the call is about in its title.
func (s *Stream) acpCall(l acpLine) {
	name, known := acpTools[l.Kind]
	if !known {
		name = l.Title
	}
	input := l.Input
	if _, text := s.tool(name, input); text == oneLine(name, 64) && known {
		about := l.Title
		if len(l.Places) > 0 && (name == "read" || name == "edit") {
			about = l.Places[0].Path
		}
		input, _ = json.Marshal(map[string]string{"path": about}) //nolint:errcheck // strings are always JSON
	}
	s.call(l.ID, name, input)
}

// acpText is the text of a block of content, or of a list of them.
func acpText(raw json.RawMessage) string {
	var one struct {
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &one) == nil {
		return one.Text
	}
	var many []struct {
		Text    string `json:"text"`
		Content struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal(raw, &many) != nil || len(many) == 0 {
		return ""
	}
	return many[0].Text + many[0].Content.Text
}
