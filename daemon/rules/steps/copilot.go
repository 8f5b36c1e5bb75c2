package steps

import "encoding/json"

// copilotLine is a line of copilot --output-format json.
type copilotLine struct {
	Type string `json:"type"`
	Data struct {
		Content   string          `json:"content"`
		CallID    string          `json:"toolCallId"`
		ToolName  string          `json:"toolName"`
		Arguments json.RawMessage `json:"arguments"`
		Success   *bool           `json:"success"`
		Error     struct {
			Message string `json:"message"`
			Code    string `json:"code"`
		} `json:"error"`
		Message      string `json:"message"`
		InputTokens  int64  `json:"inputTokens"`
		OutputTokens int64  `json:"outputTokens"`
	} `json:"data"`
}

func (s *Stream) copilot(line []byte) bool {
	var l copilotLine
	if json.Unmarshal(line, &l) != nil || l.Type == "" {
		return false
	}
	d := l.Data
	switch l.Type {
	case "assistant.message":
		s.say(d.Content)
	case "assistant.usage":
		s.report.InputTokens += d.InputTokens
		s.report.OutputTokens += d.OutputTokens
	case "tool.execution_start":
		s.call(d.CallID, d.ToolName, d.Arguments)
	case "tool.execution_complete":
		switch {
		case d.Success == nil || *d.Success:
			s.ended(d.CallID)
		case d.Error.Code == "denied" || ownRules(d.Error.Message):
			s.deny(d.CallID, "a call", d.Error.Message)
		default:
			s.failed(d.CallID, d.Error.Message)
		}
	case "session.error":
		s.fail(d.Message)
	}
	return true
}
