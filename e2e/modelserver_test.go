//go:build agents

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// model stands in for the model services of agents: it answers the Messages API of
// Anthropic and the Responses and Chat Completions APIs of OpenAI, all streaming. It has its agent run one
// command, and says that it is done once it gets the result.
type model struct {
	command string

	mu    sync.Mutex
	asked []string // paths, to say what an agent wanted if it fails
}

func startModel(t *testing.T, command string) (*model, int) {
	m := &model{command: command}
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	var port int
	if _, err := fmt.Sscanf(s.URL, "http://127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	return m, port
}

// ServeHTTP is part of http.Handler.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	m.mu.Lock()
	m.asked = append(m.asked, r.Method+" "+r.URL.Path)
	m.mu.Unlock()
	switch {
	case strings.HasSuffix(r.URL.Path, "/count_tokens"):
		fmt.Fprint(w, `{"input_tokens":10}`)
	case strings.HasSuffix(r.URL.Path, "/messages"):
		m.messages(w, body)
	case strings.HasSuffix(r.URL.Path, "/responses"):
		m.responses(w, body)
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		m.completions(w, body)
	case strings.HasSuffix(r.URL.Path, "/models"):
		fmt.Fprint(w, `{"object":"list","data":[{"id":"stand-in","object":"model"}]}`)
	default:
		http.NotFound(w, r)
	}
}

// stream writes server-sent events; each begins with its type.
func stream(w http.ResponseWriter, events ...map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		b, _ := json.Marshal(e)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e["type"], b)
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
}

type obj = map[string]any

// messages is Anthropic's API.
func (m *model) messages(w http.ResponseWriter, body []byte) {
	var req struct {
		Stream bool  `json:"stream"`
		Tools  []obj `json:"tools"`
	}
	_ = json.Unmarshal(body, &req)
	tool := ""
	for _, t := range req.Tools {
		if name, _ := t["name"].(string); strings.EqualFold(name, "bash") {
			tool = name
		}
	}
	input := obj{"command": m.command}
	if tool == "Bash" {
		input["description"] = "do the work"
	}
	use := tool != "" && !strings.Contains(string(body), `"tool_result"`)
	content, stop := obj{"type": "text", "text": "It is done."}, "end_turn"
	if use {
		content = obj{"type": "tool_use", "id": "toolu_1", "name": tool, "input": input}
		stop = "tool_use"
	}
	message := obj{"id": "msg_1", "type": "message", "role": "assistant", "model": "stand-in", "content": []any{content}, "stop_reason": stop, "stop_sequence": nil,
		"usage": obj{"input_tokens": 10, "output_tokens": 10}}
	if !req.Stream {
		_ = json.NewEncoder(w).Encode(message)
		return
	}
	begin, delta := obj{"type": "text", "text": ""}, obj{"type": "text_delta", "text": "It is done."}
	if use {
		text, _ := json.Marshal(input)
		begin = obj{"type": "tool_use", "id": "toolu_1", "name": tool, "input": obj{}}
		delta = obj{"type": "input_json_delta", "partial_json": string(text)}
	}
	message["content"], message["stop_reason"] = []any{}, nil
	stream(w,
		obj{"type": "message_start", "message": message},
		obj{"type": "content_block_start", "index": 0, "content_block": begin},
		obj{"type": "content_block_delta", "index": 0, "delta": delta},
		obj{"type": "content_block_stop", "index": 0},
		obj{"type": "message_delta", "delta": obj{"stop_reason": stop, "stop_sequence": nil}, "usage": obj{"output_tokens": 10}},
		obj{"type": "message_stop"})
}

// responses is OpenAI's API.
func (m *model) responses(w http.ResponseWriter, body []byte) {
	var req struct {
		Tools []obj `json:"tools"`
	}
	_ = json.Unmarshal(body, &req)
	item := obj{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []any{obj{"type": "output_text", "text": "It is done.", "annotations": []any{}}}}
	if !strings.Contains(string(body), `"function_call_output"`) {
		for _, t := range req.Tools {
			var args any
			switch t["name"] {
			case "exec_command":
				args = obj{"cmd": m.command}
			case "shell_command":
				args = obj{"command": m.command}
			case "shell":
				args = obj{"command": []string{"bash", "-lc", m.command}}
			default:
				continue
			}
			b, _ := json.Marshal(args)
			item = obj{"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": "completed", "name": t["name"], "arguments": string(b)}
			break
		}
	}
	usage := obj{"input_tokens": 10, "output_tokens": 10, "total_tokens": 20, "input_tokens_details": obj{"cached_tokens": 0}, "output_tokens_details": obj{"reasoning_tokens": 0}}
	stream(w,
		obj{"type": "response.created", "response": obj{"id": "resp_1", "object": "response", "status": "in_progress", "output": []any{}}},
		obj{"type": "response.output_item.added", "output_index": 0, "item": item},
		obj{"type": "response.output_item.done", "output_index": 0, "item": item},
		obj{"type": "response.completed", "response": obj{"id": "resp_1", "object": "response", "status": "completed", "output": []any{item}, "usage": usage}})
}

// shellTool is the name under which Qwen Code runs commands.
const shellTool = "run_shell_command"

// completions is OpenAI's older API.
func (m *model) completions(w http.ResponseWriter, body []byte) {
	var req struct {
		Stream bool `json:"stream"`
	}
	_ = json.Unmarshal(body, &req)
	text := string(body)
	message, finish := obj{"role": "assistant", "content": "It is done."}, "stop"
	if strings.Contains(text, `"`+shellTool+`"`) && !strings.Contains(text, `"role":"tool"`) {
		args, _ := json.Marshal(obj{"command": m.command, "is_background": false, "description": "do the work"})
		call := obj{"index": 0, "id": "call_1", "type": "function", "function": obj{"name": shellTool, "arguments": string(args)}}
		message, finish = obj{"role": "assistant", "content": nil, "tool_calls": []any{call}}, "tool_calls"
	}
	usage := obj{"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
	if !req.Stream {
		_ = json.NewEncoder(w).Encode(obj{"id": "c1", "object": "chat.completion", "model": "stand-in", "choices": []any{obj{"index": 0, "message": message, "finish_reason": finish}}, "usage": usage})
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, choice := range []obj{{"index": 0, "delta": message, "finish_reason": nil}, {"index": 0, "delta": obj{}, "finish_reason": finish}} {
		b, _ := json.Marshal(obj{"id": "c1", "object": "chat.completion.chunk", "model": "stand-in", "choices": []any{choice}, "usage": usage})
		fmt.Fprintf(w, "data: %s\n\n", b)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}
