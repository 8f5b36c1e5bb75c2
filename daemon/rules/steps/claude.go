package steps

import (
	"encoding/json"
	"strings"
)

// claudeLine is a line of claude --output-format stream-json. Qwen Code prints the same.
type claudeLine struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Message struct {
		Content json.RawMessage `json:"content"`
	} `json:"message"`
	// Of a line of type result.
	Result  string          `json:"result"`
	IsError bool            `json:"is_error"`
	Error   json.RawMessage `json:"error"`
	Cost    float64         `json:"total_cost_usd"`
	Usage   struct {
		Input         int64 `json:"input_tokens"`
		CacheCreation int64 `json:"cache_creation_input_tokens"`
		CacheRead     int64 `json:"cache_read_input_tokens"`
		Output        int64 `json:"output_tokens"`
	} `json:"usage"`
	Denials []struct {
		Tool  string          `json:"tool_name"`
		ID    string          `json:"tool_use_id"`
		Input json.RawMessage `json:"tool_input"`
	} `json:"permission_denials"`
}

type claudeBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	IsError   bool            `json:"is_error"`
	Content   json.RawMessage `json:"content"`
}

func (s *Stream) claude(line []byte) bool {
	var l claudeLine
	if json.Unmarshal(line, &l) != nil || l.Type == "" {
		return false
	}
	switch l.Type {
	case "assistant", "user":
		var blocks []claudeBlock
		if json.Unmarshal(l.Message.Content, &blocks) != nil {
			return true // the task itself, as a text
		}
		for _, b := range blocks {
			s.claudeBlock(l.Type, b)
		}
	case "result":
		s.claudeResult(l)
	}
	return true
}

func (s *Stream) claudeBlock(from string, b claudeBlock) {
	switch b.Type {
	case "text":
		if from == "assistant" {
			s.say(b.Text)
		}
	case "tool_use":
		s.call(b.ID, b.Name, b.Input)
	case "tool_result":
		text := blockText(b.Content)
		switch {
		case b.IsError && ownRules(text):
			s.deny(b.ToolUseID, "a call", text)
		case b.IsError:
			s.failed(b.ToolUseID, text)
		default:
			s.ended(b.ToolUseID)
		}
	}
}

func (s *Stream) claudeResult(l claudeLine) {
	for _, d := range l.Denials {
		s.deny(d.ID, shown(s.tool(d.Tool, d.Input)), "")
	}
	s.report.InputTokens, s.report.OutputTokens = l.Usage.Input+l.Usage.CacheCreation+l.Usage.CacheRead, l.Usage.Output
	s.report.CostUSD = l.Cost
	if !l.IsError {
		s.answer(l.Result)
		return
	}
	var e struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(l.Error, &e) //nolint:errcheck // some versions have none
	for _, text := range []string{e.Message, l.Result, l.Subtype} {
		if strings.TrimSpace(text) != "" {
			s.fail(text)
			return
		}
	}
}

// blockText is a text, or the texts in a list of blocks.
func blockText(raw json.RawMessage) string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return one
	}
	var blocks []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &blocks) != nil {
		return ""
	}
	var out []string
	for _, b := range blocks {
		if b.Text != "" {
			out = append(out, b.Text)
		}
	}
	return strings.Join(out, "\n")
}
