package steps

import (
	"encoding/json"
	"fmt"
	"strings"

	"polis/daemon/api"
)

// codexLine is a line of codex exec --json.
type codexLine struct {
	Type    string    `json:"type"`
	Item    codexItem `json:"item"`
	Message string    `json:"message"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
	Usage struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"usage"`
}

type codexItem struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Text    string `json:"text"`
	Command string `json:"command"`
	Output  string `json:"aggregated_output"`
	Exit    *int   `json:"exit_code"`
	Status  string `json:"status"`
	Changes []struct {
		Path string `json:"path"`
		Kind string `json:"kind"`
	} `json:"changes"`
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Query     string          `json:"query"`
	Message   string          `json:"message"`
	Error     struct {
		Message string `json:"message"`
	} `json:"error"`
}

func (s *Stream) codex(line []byte) bool {
	var l codexLine
	if json.Unmarshal(line, &l) != nil || l.Type == "" {
		return false
	}
	switch l.Type {
	case "item.started":
		s.codexStarted(l.Item)
	case "item.completed":
		s.codexCompleted(l.Item)
	case "turn.completed":
		s.report.InputTokens, s.report.OutputTokens = l.Usage.Input, l.Usage.Output
	case "turn.failed":
		s.fail(l.Error.Message)
	case "error":
		s.fail(l.Message)
	}
	return true
}

func (s *Stream) codexStarted(i codexItem) {
	switch i.Type {
	case "command_execution":
		s.begin(i.ID, api.StepCommand, unwrap(i.Command))
	case "mcp_tool_call":
		s.begin(i.ID, api.StepTool, i.Server+"."+i.Tool)
	case "web_search":
		if i.Query != "" {
			s.begin(i.ID, api.StepWeb, i.Query)
		}
	}
}

// begin emits a call, and waits for its end.
func (s *Stream) begin(id string, kind api.StepKind, text string) {
	s.add(kind, text, false)
	s.await(id, shown(kind, text))
}

func (s *Stream) codexCompleted(i codexItem) {
	switch i.Type {
	case "agent_message":
		s.say(i.Text)
	case "command_execution":
		if _, begun := s.pending[i.ID]; !begun {
			s.codexStarted(i)
		}
		switch {
		case i.Status == "declined" || i.Exit == nil && ownRules(i.Output):
			s.deny(i.ID, unwrap(i.Command), "")
		case i.Status == "failed" || i.Exit != nil && *i.Exit != 0:
			s.failed(i.ID, exitText(i.Exit, i.Output))
		default:
			s.ended(i.ID)
		}
	case "file_change":
		s.codexChanged(i)
	case "mcp_tool_call":
		if i.Status == "failed" {
			s.failed(i.ID, i.Error.Message)
			return
		}
		s.ended(i.ID)
	case "web_search":
		if _, begun := s.pending[i.ID]; !begun {
			s.add(api.StepWeb, i.Query, false)
		}
		s.ended(i.ID)
	case "error":
		s.add(api.StepFailed, i.Message, true)
	}
}

func (s *Stream) codexChanged(i codexItem) {
	var files []string
	for _, c := range i.Changes[:min(len(i.Changes), 10)] {
		files = append(files, s.rel(c.Path))
	}
	what := strings.Join(files, ", ")
	if more := len(i.Changes) - len(files); more > 0 {
		what += fmt.Sprintf(" and %d more (polisctl tasks show ID --output --raw has all)", more)
	}
	switch i.Status {
	case "declined":
		s.deny(i.ID, "edit "+what, "")
	case "failed":
		s.add(api.StepFailed, "edit "+what, true)
	default:
		s.add(api.StepEdit, what, false)
	}
}

// exitText is how a command failed: its exit code, and the last thing it printed.
func exitText(code *int, output string) string {
	text := "failed"
	if code != nil {
		text = fmt.Sprintf("exit %d", *code)
	}
	output = strings.TrimRight(output[max(0, len(output)-maxText):], " \r\n")
	if last := oneLine(output[strings.LastIndexByte(output, '\n')+1:], maxText); last != "" {
		text += ", " + last
	}
	return text
}
