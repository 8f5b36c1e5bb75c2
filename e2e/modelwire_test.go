//go:build agents

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// unpack reads a request into v; what it does not know is left out.
func unpack(body []byte, v any) { _ = json.Unmarshal(body, v) }

// text is a value of JSON as text.
func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// events writes server-sent events, each under its type if it has one.
func events(w http.ResponseWriter, events ...obj) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		if t, ok := e["type"]; ok {
			fmt.Fprintf(w, "event: %s\n", t)
		}
		fmt.Fprintf(w, "data: %s\n\n", text(e))
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
	}
}

// whole writes an answer that is not streamed.
func whole(w http.ResponseWriter, answer obj) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintln(w, text(answer))
}

// readMessages reads a request of Anthropic's API.
func readMessages(body []byte) ask {
	var req struct {
		Model  string
		Stream bool
		Tools  []struct {
			Name   string
			Schema obj `json:"input_schema"`
		}
		Messages []struct{ Content any }
	}
	unpack(body, &req)
	a := ask{model: req.Model, stream: req.Stream}
	for _, t := range req.Tools {
		a.tools = append(a.tools, tool{name: t.Name, schema: t.Schema})
	}
	for _, m := range req.Messages {
		parts, _ := m.Content.([]any)
		for _, p := range parts {
			if o, _ := p.(obj); o["type"] == "tool_result" {
				a.results = append(a.results, text(o["content"]))
			}
		}
	}
	return a
}

func writeMessages(w http.ResponseWriter, t turn, stream bool) {
	content, begin := obj{"type": "text", "text": t.words}, obj{"type": "text", "text": ""}
	delta, stop := obj{"type": "text_delta", "text": t.words}, "end_turn"
	if t.call != nil {
		content = obj{"type": "tool_use", "id": "toolu_" + t.id, "name": t.call.name, "input": t.input}
		begin = obj{"type": "tool_use", "id": "toolu_" + t.id, "name": t.call.name, "input": obj{}}
		delta, stop = obj{"type": "input_json_delta", "partial_json": text(t.input)}, "tool_use"
	}
	message := obj{"id": "msg_1", "type": "message", "role": "assistant", "model": "stand-in", "content": []any{content}, "stop_reason": stop, "stop_sequence": nil,
		"usage": obj{"input_tokens": 10, "output_tokens": 10}}
	if !stream {
		whole(w, message)
		return
	}
	message["content"], message["stop_reason"] = []any{}, nil
	events(w,
		obj{"type": "message_start", "message": message},
		obj{"type": "content_block_start", "index": 0, "content_block": begin},
		obj{"type": "content_block_delta", "index": 0, "delta": delta},
		obj{"type": "content_block_stop", "index": 0},
		obj{"type": "message_delta", "delta": obj{"stop_reason": stop, "stop_sequence": nil}, "usage": obj{"output_tokens": 10}},
		obj{"type": "message_stop"})
}

// readResponses reads a request of OpenAI's Responses API.
func readResponses(body []byte) ask {
	var req struct {
		Model  string
		Stream bool
		Tools  []struct {
			Type, Name string
			Parameters obj
		}
		Input any
	}
	unpack(body, &req)
	a := ask{model: req.Model, stream: req.Stream}
	for _, t := range req.Tools {
		if t.Name != "" {
			a.tools = append(a.tools, tool{name: t.Name, free: t.Type == "custom", schema: t.Parameters})
		}
	}
	items, _ := req.Input.([]any)
	for _, i := range items {
		if o, _ := i.(obj); strings.HasSuffix(fmt.Sprint(o["type"]), "_call_output") {
			a.results = append(a.results, text(o["output"]))
		}
	}
	return a
}

func writeResponses(w http.ResponseWriter, t turn, stream bool) {
	item := obj{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []any{obj{"type": "output_text", "text": t.words, "annotations": []any{}}}}
	if t.call != nil {
		item = obj{"type": "function_call", "id": "fc_" + t.id, "call_id": t.id, "status": "completed", "name": t.call.name, "arguments": text(t.input)}
		if t.call.free {
			item = obj{"type": "custom_tool_call", "id": "ct_" + t.id, "call_id": t.id, "status": "completed", "name": t.call.name, "input": t.free}
		}
	}
	usage := obj{"input_tokens": 10, "output_tokens": 10, "total_tokens": 20, "input_tokens_details": obj{"cached_tokens": 0}, "output_tokens_details": obj{"reasoning_tokens": 0}}
	answer := obj{"id": "resp_1", "object": "response", "model": "stand-in", "created_at": 1, "status": "completed", "output": []any{item}, "usage": usage}
	if !stream {
		whole(w, answer)
		return
	}
	events(w,
		obj{"type": "response.created", "sequence_number": 0, "response": obj{"id": "resp_1", "object": "response", "model": "stand-in", "created_at": 1, "status": "in_progress", "output": []any{}}},
		obj{"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item},
		obj{"type": "response.output_item.done", "sequence_number": 2, "output_index": 0, "item": item},
		obj{"type": "response.completed", "sequence_number": 3, "response": answer})
}

// readCompletions reads a request of OpenAI's Chat Completions API.
func readCompletions(body []byte) ask {
	var req struct {
		Model  string
		Stream bool
		Tools  []struct {
			Function struct {
				Name       string
				Parameters obj
			}
		}
		Messages []struct {
			Role    string
			Content any
		}
	}
	unpack(body, &req)
	a := ask{model: req.Model, stream: req.Stream}
	for _, t := range req.Tools {
		a.tools = append(a.tools, tool{name: t.Function.Name, schema: t.Function.Parameters})
	}
	for _, m := range req.Messages {
		if m.Role == "tool" {
			a.results = append(a.results, text(m.Content))
		}
	}
	return a
}

func writeCompletions(w http.ResponseWriter, t turn, stream bool) {
	message, finish := obj{"role": "assistant", "content": t.words}, "stop"
	if t.call != nil {
		call := obj{"index": 0, "id": t.id, "type": "function", "function": obj{"name": t.call.name, "arguments": text(t.input)}}
		message, finish = obj{"role": "assistant", "content": nil, "tool_calls": []any{call}}, "tool_calls"
	}
	usage := obj{"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
	if !stream {
		whole(w, obj{"id": "c1", "object": "chat.completion", "created": 1, "model": "stand-in", "choices": []any{obj{"index": 0, "message": message, "finish_reason": finish}}, "usage": usage})
		return
	}
	chunk := func(choice obj) obj {
		return obj{"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "stand-in", "choices": []any{choice}, "usage": usage}
	}
	events(w, chunk(obj{"index": 0, "delta": message, "finish_reason": nil}), chunk(obj{"index": 0, "delta": obj{}, "finish_reason": finish}))
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// readGenerate reads a request of Gemini's generateContent.
func readGenerate(body []byte) ask {
	var req struct {
		Tools []struct {
			FunctionDeclarations []struct {
				Name                 string
				Parameters           obj
				ParametersJSONSchema obj `json:"parametersJsonSchema"`
			}
		}
		Contents         []struct{ Parts []obj }
		GenerationConfig struct {
			ResponseJSONSchema obj `json:"responseJsonSchema"`
		}
	}
	unpack(body, &req)
	a := ask{schema: req.GenerationConfig.ResponseJSONSchema}
	for _, t := range req.Tools {
		for _, f := range t.FunctionDeclarations {
			schema := f.ParametersJSONSchema
			if schema == nil {
				schema = f.Parameters
			}
			a.tools = append(a.tools, tool{name: f.Name, schema: schema})
		}
	}
	for _, c := range req.Contents {
		for _, p := range c.Parts {
			if r, ok := p["functionResponse"].(obj); ok {
				a.results = append(a.results, text(r["response"]))
			}
		}
	}
	return a
}

func writeGenerate(w http.ResponseWriter, t turn, stream bool) {
	part := obj{"text": t.words}
	if t.call != nil {
		part = obj{"functionCall": obj{"id": t.id, "name": t.call.name, "args": t.input}}
	}
	answer := obj{"responseId": "r1", "modelVersion": "stand-in",
		"candidates":    []any{obj{"index": 0, "content": obj{"role": "model", "parts": []any{part}}, "finishReason": "STOP"}},
		"usageMetadata": obj{"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}}
	if !stream {
		whole(w, answer)
		return
	}
	events(w, answer)
}
