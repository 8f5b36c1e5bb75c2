package steps

import "encoding/json"

// opencodeLine is a line of opencode run --format json.
type opencodeLine struct {
	Type string `json:"type"`
	Part struct {
		Text   string `json:"text"`
		Tool   string `json:"tool"`
		CallID string `json:"callID"`
		State  struct {
			Status string          `json:"status"`
			Input  json.RawMessage `json:"input"`
			Error  string          `json:"error"`
			Output string          `json:"output"`
			Meta   struct {
				Exit *int `json:"exit"`
			} `json:"metadata"`
		} `json:"state"`
		Cost   float64 `json:"cost"`
		Tokens struct {
			Input  int64 `json:"input"`
			Output int64 `json:"output"`
			Cache  struct {
				Read  int64 `json:"read"`
				Write int64 `json:"write"`
			} `json:"cache"`
		} `json:"tokens"`
	} `json:"part"`
	Error struct {
		Name string `json:"name"`
		Data struct {
			Message string `json:"message"`
		} `json:"data"`
	} `json:"error"`
}

// opencode reads a call once it has ended: the program prints it then.
func (s *Stream) opencode(line []byte) bool {
	var l opencodeLine
	if json.Unmarshal(line, &l) != nil || l.Type == "" {
		return false
	}
	p := l.Part
	switch l.Type {
	case "text":
		s.say(p.Text)
	case "tool_use":
		s.call(p.CallID, p.Tool, p.State.Input)
		exit := p.State.Meta.Exit
		switch {
		case p.State.Status == "error" && ownRules(p.State.Error):
			s.deny(p.CallID, p.Tool, p.State.Error)
		case p.State.Status == "error":
			s.failed(p.CallID, p.State.Error)
		case exit != nil && *exit != 0:
			s.failed(p.CallID, exitText(exit, p.State.Output))
		default:
			s.ended(p.CallID)
		}
	case "step_finish":
		s.report.CostUSD += p.Cost
		s.report.InputTokens += p.Tokens.Input + p.Tokens.Cache.Read + p.Tokens.Cache.Write
		s.report.OutputTokens += p.Tokens.Output
	case "error":
		text := l.Error.Data.Message
		if text == "" {
			text = l.Error.Name
		}
		s.fail(text)
	}
	return true
}
