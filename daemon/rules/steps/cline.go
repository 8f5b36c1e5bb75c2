package steps

import "encoding/json"

// clineLine is a line of cline --json.
type clineLine struct {
	Type  string `json:"type"`
	Event struct {
		Type         string          `json:"type"`
		ContentType  string          `json:"contentType"`
		CallID       string          `json:"toolCallId"`
		ToolName     string          `json:"toolName"`
		Input        json.RawMessage `json:"input"`
		Output       json.RawMessage `json:"output"`
		Text         string          `json:"text"`
		Error        json.RawMessage `json:"error"`
		InputTokens  int64           `json:"totalInputTokens"`
		OutputTokens int64           `json:"totalOutputTokens"`
		Cost         float64         `json:"totalCost"`
	} `json:"event"`
	// Of a line of type run_result.
	Text string `json:"text"`
}

func (s *Stream) cline(line []byte) bool {
	var l clineLine
	if json.Unmarshal(line, &l) != nil || l.Type == "" {
		return false
	}
	e := l.Event
	switch {
	case l.Type == "run_result":
		s.answer(l.Text)
	case e.Type == "usage":
		s.report.InputTokens, s.report.OutputTokens, s.report.CostUSD = e.InputTokens, e.OutputTokens, e.Cost
	case e.Type == "content_start" && e.ContentType == "tool":
		s.call(e.CallID, e.ToolName, e.Input)
	case e.Type == "content_end" && e.ContentType == "text":
		s.say(e.Text)
	case e.Type == "content_end" && e.ContentType == "tool":
		s.clineEnded(e.CallID, clineError(e.Error), e.Output)
	case e.Type == "error":
		s.fail(clineError(e.Error))
	}
	return true
}

func (s *Stream) clineEnded(id, message string, output json.RawMessage) {
	var parts []struct {
		Success *bool  `json:"success"`
		Error   string `json:"error"`
	}
	if message == "" && json.Unmarshal(output, &parts) == nil {
		for _, p := range parts {
			if p.Success != nil && !*p.Success {
				message = firstLine(p.Error)
				if message == "" {
					message = "no success"
				}
				break
			}
		}
	}
	switch {
	case ownRules(message):
		s.deny(id, "a call", message)
	case message != "":
		s.failed(id, message)
	default:
		s.ended(id)
	}
}

// clineError is an error as text: it is one, or an object, or the JSON of one in a text.
func clineError(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	var o struct {
		Error   string `json:"error"`
		Message string `json:"message"`
	}
	switch {
	case json.Unmarshal(raw, &o) != nil:
		return text
	case o.Error != "":
		return o.Error
	}
	return o.Message
}
