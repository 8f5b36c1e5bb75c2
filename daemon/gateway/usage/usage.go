package usage

import (
	"encoding/json"
	"math"

	"polis/daemon/gateway/provider"
)

// Tokens are those of one answer. Input has neither of the cached ones.
type Tokens struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
}

// Total is the sum of all, or the largest number if that is larger.
func (t Tokens) Total() int64 {
	var sum uint64
	for _, n := range []int64{t.Input, t.Output, t.CacheRead, t.CacheWrite} {
		sum = min(sum+uint64(max(n, 0)), math.MaxInt64)
	}
	return int64(sum)
}

// maxTokens bounds what an answer can claim. No model has such a context.
const maxTokens = 1 << 30

// number is a count of a provider: what is no whole number in range counts as the nearest that is.
type number int64

// UnmarshalJSON accepts null, and numbers with a fraction or exponent.
func (n *number) UnmarshalJSON(b []byte) error {
	var f float64
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*n = number(min(max(f, 0), maxTokens))
	return nil
}

// fields are the usage fields of all formats; a document has those of its own.
type fields struct {
	// Messages and Responses.
	InputTokens  *number `json:"input_tokens"`
	OutputTokens *number `json:"output_tokens"`
	CacheWrite   *number `json:"cache_creation_input_tokens"`
	CacheRead    *number `json:"cache_read_input_tokens"`
	InputDetails struct {
		Cached number `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	// Chat completions.
	PromptTokens     *number `json:"prompt_tokens"`
	CompletionTokens *number `json:"completion_tokens"`
	PromptDetails    struct {
		Cached number `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

type geminiFields struct {
	Prompt     number `json:"promptTokenCount"`
	Candidates number `json:"candidatesTokenCount"`
	Thoughts   number `json:"thoughtsTokenCount"`
	ToolUse    number `json:"toolUsePromptTokenCount"`
	Cached     number `json:"cachedContentTokenCount"`
}

// document is an answer, or one event of it.
type document struct {
	Type    string  `json:"type"`
	Usage   *fields `json:"usage"`
	Message struct {
		Usage *fields `json:"usage"`
	} `json:"message"`
	Response struct {
		Usage *fields `json:"usage"`
	} `json:"response"`
	Gemini *geminiFields `json:"usageMetadata"`
}

// read adds what one document reports. input reports whether it has the count of the request, which may
// be 0, and final whether it has that of the whole answer.
func (t *Tokens) read(f provider.Format, b []byte) (input, final bool) {
	var d document
	if json.Unmarshal(b, &d) != nil {
		return false, false
	}
	switch f {
	case provider.FormatMessages:
		first, second := t.messages(d.Message.Usage), t.messages(d.Usage)
		return first || second, d.Usage != nil && d.Usage.OutputTokens != nil
	case provider.FormatChat:
		final = t.chat(d.Usage)
	case provider.FormatResponses:
		if d.Response.Usage != nil {
			final = t.responses(d.Response.Usage)
		} else {
			final = t.responses(d.Usage)
		}
	case provider.FormatGemini:
		if d.Gemini == nil {
			return false, false
		}
		g := d.Gemini
		t.CacheRead = int64(min(g.Cached, g.Prompt))
		t.Input, t.Output = int64(g.Prompt+g.ToolUse)-t.CacheRead, int64(g.Candidates+g.Thoughts)
		final = true
	}
	return final, final
}

// messages takes the fields that are there: the later ones are cumulative. It reports whether the count
// of the request is among them.
func (t *Tokens) messages(u *fields) bool {
	if u == nil {
		return false
	}
	for _, f := range []struct {
		to   *int64
		from *number
	}{{&t.Input, u.InputTokens}, {&t.Output, u.OutputTokens}, {&t.CacheRead, u.CacheRead}, {&t.CacheWrite, u.CacheWrite}} {
		if f.from != nil {
			*f.to = max(*f.to, int64(*f.from))
		}
	}
	return u.InputTokens != nil
}

func (t *Tokens) chat(u *fields) bool {
	if u == nil || u.PromptTokens == nil {
		return false
	}
	t.CacheRead = int64(min(u.PromptDetails.Cached, *u.PromptTokens))
	t.Input = int64(*u.PromptTokens) - t.CacheRead
	if u.CompletionTokens != nil { // embeddings have none
		t.Output = int64(*u.CompletionTokens)
	}
	return true
}

func (t *Tokens) responses(u *fields) bool {
	if u == nil || u.InputTokens == nil {
		return false
	}
	t.CacheRead = int64(min(u.InputDetails.Cached, *u.InputTokens))
	t.Input = int64(*u.InputTokens) - t.CacheRead
	if u.OutputTokens != nil {
		t.Output = int64(*u.OutputTokens)
	}
	return true
}
