package provider

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Kind is the format of a model service, as `kind` of [models.NAME] names it.
type Kind string

// The kinds.
const (
	Anthropic  Kind = "anthropic"
	OpenAI     Kind = "openai"
	Gemini     Kind = "gemini"
	Compatible Kind = "openai-compatible"
)

// Kinds returns all kinds, in the order of the documentation.
func Kinds() []Kind { return []Kind{Anthropic, OpenAI, Gemini, Compatible} }

// DefaultURL returns the provider's own address; "" if the kind has none.
func (k Kind) DefaultURL() string {
	switch k {
	case Anthropic:
		return "https://api.anthropic.com"
	case OpenAI:
		return "https://api.openai.com"
	case Gemini:
		return "https://generativelanguage.googleapis.com"
	}
	return ""
}

// Format is the form of an answer, for package usage.
type Format string

// The formats; FormatNone has no usage.
const (
	FormatNone      Format = ""
	FormatMessages  Format = "messages"
	FormatChat      Format = "chat"
	FormatResponses Format = "responses"
	FormatGemini    Format = "gemini"
)

// A Call is a request that a kind allows.
type Call struct {
	Method string
	// Path is the path of the request to the provider. It is made from the patterns, never copied.
	Path string
	// Model is the model that the path names; "" if the body has it, or the call has none.
	Model string
	// Format is the form of the answer's usage; FormatNone for a call that uses no tokens.
	Format Format
	// Body: the request has a JSON object as its body.
	Body bool
	// InBody: the body names the model.
	InBody bool
}

type route struct {
	method, path string
	format       Format
	body, inBody bool
}

var routes = map[Kind][]route{
	Anthropic: {
		{http.MethodPost, "/v1/messages", FormatMessages, true, true},
		{http.MethodPost, "/v1/messages/count_tokens", FormatNone, true, true},
		{http.MethodGet, "/v1/models", FormatNone, false, false},
		{http.MethodGet, "/v1/models/{model}", FormatNone, false, false},
	},
	OpenAI: {
		{http.MethodPost, "/v1/chat/completions", FormatChat, true, true},
		{http.MethodPost, "/v1/responses", FormatResponses, true, true},
		{http.MethodPost, "/v1/completions", FormatChat, true, true},
		{http.MethodPost, "/v1/embeddings", FormatChat, true, true},
		{http.MethodGet, "/v1/models", FormatNone, false, false},
		{http.MethodGet, "/v1/models/{model}", FormatNone, false, false},
	},
	Gemini: {
		{http.MethodPost, "/v1beta/models/{model}:generateContent", FormatGemini, true, false},
		{http.MethodPost, "/v1beta/models/{model}:streamGenerateContent", FormatGemini, true, false},
		{http.MethodPost, "/v1beta/models/{model}:countTokens", FormatNone, true, false},
		{http.MethodPost, "/v1/models/{model}:generateContent", FormatGemini, true, false},
		{http.MethodPost, "/v1/models/{model}:streamGenerateContent", FormatGemini, true, false},
		{http.MethodPost, "/v1/models/{model}:countTokens", FormatNone, true, false},
		{http.MethodGet, "/v1beta/models", FormatNone, false, false},
		{http.MethodGet, "/v1beta/models/{model}", FormatNone, false, false},
	},
}

// MaxModel is the longest name of a model, in bytes.
const MaxModel = 128

var (
	// pathModel is a model in a path: no separator, so that no name reaches another path.
	pathModel = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$`)
	// bodyModel is a model in a body, where some services have names such as vendor/model:tag.
	bodyModel = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$`)
)

// Match returns the call that a request with this method and path is. The path must be in its
// plain form: the caller refuses percent encodings.
func (k Kind) Match(method, path string) (Call, bool) {
	table := routes[k]
	if k == Compatible {
		table = routes[OpenAI]
	}
	for _, r := range table {
		if r.method != method {
			continue
		}
		model, ok := matchPath(r.path, path)
		if !ok {
			continue
		}
		return Call{Method: method, Path: strings.Replace(r.path, "{model}", model, 1), Model: model, Format: r.format, Body: r.body, InBody: r.inBody}, true
	}
	return Call{}, false
}

func matchPath(pattern, path string) (model string, ok bool) {
	before, after, has := strings.Cut(pattern, "{model}")
	if !has {
		return "", path == pattern
	}
	rest, ok := strings.CutPrefix(path, before)
	if !ok {
		return "", false
	}
	if model, ok = strings.CutSuffix(rest, after); !ok || !pathModel.MatchString(model) {
		return "", false
	}
	return model, true
}

// Authorize puts the key into a request that has none. "" adds nothing: a local server needs no key.
func (k Kind) Authorize(h http.Header, key string) {
	switch {
	case key == "":
	case k == Anthropic:
		h.Set("X-Api-Key", key)
	case k == Gemini:
		h.Set("X-Goog-Api-Key", key)
	default:
		h.Set("Authorization", "Bearer "+key)
	}
}

// forwarded are the request headers that reach a provider. All others stay behind: among them those
// that could carry a key, choose who pays, or change how the message is framed.
var forwarded = []string{
	"Accept", "Content-Type", "User-Agent", "Idempotency-Key", "X-Request-Id", "X-Client-Request-Id", "X-App",
	"Anthropic-Version", "Anthropic-Beta", "Anthropic-Dangerous-Direct-Browser-Access",
	"Openai-Beta", "X-Goog-Api-Client", "Http-Referer", "X-Title",
}

// Headers returns the headers of the request to the provider, without a key.
func Headers(in http.Header) http.Header {
	out := http.Header{}
	for name, values := range in {
		if slices.Contains(forwarded, name) || strings.HasPrefix(name, "X-Stainless-") {
			out[name] = slices.Clone(values)
		}
	}
	// A compressed answer could not be metered.
	out.Set("Accept-Encoding", "identity")
	return out
}

// query are the parameters that reach a provider. A key in the query never does.
var query = []string{"beta", "alt", "limit", "after_id", "before_id", "pageSize", "pageToken"}

// Query returns the parameters of the request to the provider.
func Query(in map[string][]string) map[string][]string {
	out := map[string][]string{}
	for _, name := range query {
		if v, ok := in[name]; ok {
			out[name] = v[:1]
		}
	}
	return out
}
