package steps

import (
	"bytes"
	"encoding/json"
)

// piLine is a line of pi --mode json.
type piLine struct {
	Type     string          `json:"type"`
	CallID   string          `json:"toolCallId"`
	ToolName string          `json:"toolName"`
	Args     json.RawMessage `json:"args"`
	IsError  bool            `json:"isError"`
	Result   struct {
		Content json.RawMessage `json:"content"`
	} `json:"result"`
	Message struct {
		Role         string          `json:"role"`
		Content      json.RawMessage `json:"content"`
		ErrorMessage string          `json:"errorMessage"`
		Usage        struct {
			Input      int64 `json:"input"`
			Output     int64 `json:"output"`
			CacheRead  int64 `json:"cacheRead"`
			CacheWrite int64 `json:"cacheWrite"`
			Cost       struct {
				Total float64 `json:"total"`
			} `json:"cost"`
		} `json:"usage"`
	} `json:"message"`
}

// piUpdate begins the lines that have a message as far as it has come: there is one for
// each of its words.
var piUpdate = []byte(`{"type":"message_update"`)

func (s *Stream) pi(line []byte) bool {
	if bytes.HasPrefix(line, piUpdate) {
		return true
	}
	var l piLine
	if json.Unmarshal(line, &l) != nil || l.Type == "" {
		return false
	}
	switch l.Type {
	case "message_end":
		m := l.Message
		if m.Role != "assistant" {
			break
		}
		s.say(blockText(m.Content))
		s.fail(m.ErrorMessage)
		s.report.InputTokens += m.Usage.Input + m.Usage.CacheRead + m.Usage.CacheWrite
		s.report.OutputTokens += m.Usage.Output
		s.report.CostUSD += m.Usage.Cost.Total
	case "tool_execution_start":
		s.call(l.CallID, l.ToolName, l.Args)
	case "tool_execution_end":
		if l.IsError {
			s.failed(l.CallID, blockText(l.Result.Content))
			break
		}
		s.ended(l.CallID)
	}
	return true
}
