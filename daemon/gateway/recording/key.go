package recording

import (
	"crypto/sha256"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// key is what requests are compared by.
type key struct {
	// endpoint is the service, the method, the path and the model.
	endpoint string
	// last is what the request adds to its conversation: what follows the last message of the model,
	// normalized. It is not kept of recorded requests.
	last string
	hash [sha256.Size]byte // of last
	// Of requests whose last is the same, those are preferred that are alike in these, too.
	turn                 int
	first, tools, system [sha256.Size]byte
	stream               bool
}

// keyOf returns the key of a request. of replaces the names of agents.
func keyOf(r Request, of *regexp.Regexp) key {
	k := key{endpoint: strings.Join([]string{r.Service, r.Method, r.Path, r.Model}, " "), stream: r.Stream}
	if r.Body == nil {
		return k
	}
	var body map[string]any
	if err := json.Unmarshal(r.Body, &body); err != nil {
		// The gateway sends JSON objects only.
		k.last = normal(string(r.Body), of)
		k.hash = sha256.Sum256([]byte(k.last))
		return k
	}
	var last any = body
	if list, ok := conversation(body); ok {
		last = list[lastTurn(list):]
		k.turn = len(list)
		if i := slices.IndexFunc(list, func(m any) bool { return role(m) == "user" }); i >= 0 {
			k.first = hashOf(list[i], of)
		}
	}
	text := canonical(last, of)
	k.hash = sha256.Sum256([]byte(text))
	k.last = text
	k.tools = hashOf(toolNames(body), nil)
	k.system = sha256.Sum256([]byte(head(body, of)))
	return k
}

// same reports whether two requests are alike in everything that is compared.
func (k key) same(o key) bool {
	k.last, o.last = "", ""
	return k == o
}

// conversation returns the messages of a request in any of the providers' formats.
func conversation(body map[string]any) ([]any, bool) {
	for _, name := range []string{"messages", "contents", "input"} {
		switch v := body[name].(type) {
		case []any:
			return v, len(v) > 0
		case string:
			return []any{map[string]any{"role": "user", "content": v}}, true
		}
	}
	return nil, false
}

// lastTurn is where the messages after the last one of the model begin.
func lastTurn(list []any) int {
	i := len(list) - 1
	for i > 0 && !ofModel(list[i-1]) {
		i--
	}
	return i
}

func role(m any) string {
	o, _ := m.(map[string]any)
	s, _ := o["role"].(string)
	return s
}

func ofModel(m any) bool {
	o, _ := m.(map[string]any)
	kind, _ := o["type"].(string)
	r := role(m)
	return r == "assistant" || r == "model" || strings.HasSuffix(kind, "_call") || kind == "reasoning" || kind == "item_reference"
}

// toolNames are the tools that a request offers, in order.
func toolNames(body map[string]any) []any {
	var out []any
	tools, _ := body["tools"].([]any)
	for _, t := range tools {
		o, _ := t.(map[string]any)
		if f, ok := o["function"].(map[string]any); ok {
			o = f
		}
		out = append(out, o["name"])
		list, _ := o["functionDeclarations"].([]any)
		for _, f := range list {
			d, _ := f.(map[string]any)
			out = append(out, d["name"])
		}
	}
	return out
}

// head is the beginning of the instructions for the model, which differ between the purposes that a
// program has requests for.
func head(body map[string]any, of *regexp.Regexp) string {
	for _, name := range []string{"system", "instructions", "systemInstruction"} {
		if v, ok := body[name]; ok {
			text := canonical(v, of)
			return text[:min(len(text), 200)]
		}
	}
	if list, ok := conversation(body); ok && role(list[0]) == "system" {
		text := canonical(list[0], of)
		return text[:min(len(text), 200)]
	}
	return ""
}

func hashOf(v any, of *regexp.Regexp) [sha256.Size]byte {
	return sha256.Sum256([]byte(canonical(v, of)))
}

// ids are members that name a call or mark a cache: they vary, and mean nothing by themselves.
var ids = map[string]bool{"id": true, "tool_use_id": true, "tool_call_id": true, "call_id": true, "cache_control": true, "signature": true, "thoughtSignature": true, "encrypted_content": true}

// canonical is the text of a value, the same for values that mean the same.
func canonical(v any, of *regexp.Regexp) string {
	b, err := json.Marshal(scrubbed(v, of)) // with sorted members
	if err != nil {
		return "" // it was read from JSON
	}
	return string(b)
}

func scrubbed(v any, of *regexp.Regexp) any {
	switch v := v.(type) {
	case string:
		return normal(v, of)
	case float64:
		if v >= 1e9 { // a time, as in texts
			return "{varies}"
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = scrubbed(v[i], of)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			if !ids[name] {
				out[name] = scrubbed(value, of)
			}
		}
		return out
	}
	return v
}
