package steps

import "encoding/json"

// geminiLine is a line of gemini --output-format stream-json.
type geminiLine struct {
	Type       string          `json:"type"`
	Role       string          `json:"role"`
	Content    string          `json:"content"`
	ToolName   string          `json:"tool_name"`
	ToolID     string          `json:"tool_id"`
	Parameters json.RawMessage `json:"parameters"`
	Status     string          `json:"status"`
	Output     string          `json:"output"`
	Message    string          `json:"message"`
	Severity   string          `json:"severity"`
	Error      struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	Stats struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"stats"`
}

func (s *Stream) gemini(line []byte) bool {
	var l geminiLine
	if json.Unmarshal(line, &l) != nil || l.Type == "" {
		return false
	}
	if l.Type == "message" && l.Role == "assistant" {
		s.piece(l.Content)
		return true
	}
	s.flush()
	switch l.Type {
	case "tool_use":
		s.call(l.ToolID, l.ToolName, l.Parameters)
	case "tool_result":
		switch {
		case l.Status == "error" && (l.Error.Type == "policy_violation" || ownRules(l.Error.Message)):
			s.deny(l.ToolID, "a call", l.Error.Message)
		case l.Status == "error":
			s.failed(l.ToolID, l.Error.Message)
		default:
			s.ended(l.ToolID)
		}
	case "error":
		s.fail(l.Message)
	case "result":
		s.report.InputTokens, s.report.OutputTokens = l.Stats.Input, l.Stats.Output
		if l.Status == "error" {
			s.fail(l.Error.Message)
		}
	}
	return true
}
