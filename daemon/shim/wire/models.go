package wire

import (
	"log/slog"
	"time"

	"polis/daemon/setting"
)

// ModelsVersion is the first version whose shims have a gateway to model services.
const ModelsVersion = 24

// Models are the model services of an agent: POST /v1/models, since [ModelsVersion]. A request has
// all of them; it replaces what was set before. The shim holds them in memory only, because they
// have keys.
type Models struct {
	Models []Model `json:"models"`
	// Budget bounds what the agent uses of all of them.
	Budget setting.ModelBudget `json:"budget,omitzero"`
	// Proxy is how the host reaches the services.
	Proxy Proxy `json:"proxy,omitzero"`
}

// Model is one model service.
type Model struct {
	// Name is that of [models.NAME], and the first part of the path at the agent's endpoint.
	Name string `json:"name"`
	// Kind is a provider.Kind, URL the address without the path of its API.
	Kind string `json:"kind"`
	URL  string `json:"url"`
	// Key is a secret; "" if the service needs none.
	Key string `json:"key,omitempty"`
	// Allow are patterns of the models that may be used; none: all.
	Allow    []string             `json:"allow,omitempty"`
	Currency string               `json:"currency,omitempty"`
	Prices   []setting.ModelPrice `json:"prices,omitempty"`
	// PausedUntil: the service asked for a pause, perhaps of another agent.
	PausedUntil time.Time `json:"paused_until,omitzero"`
}

// Proxy has the environment variables of polisd that name the host's proxies.
type Proxy struct {
	HTTP  string `json:"http,omitempty"`
	HTTPS string `json:"https,omitempty"`
	No    string `json:"no,omitempty"`
}

// LogValue keeps the key out of logs.
func (m Model) LogValue() slog.Value { return slog.StringValue("model service " + m.Name) }

// String keeps the key out of texts.
func (m Model) String() string { return "model service " + m.Name }

// GoString does so for %#v.
func (m Model) GoString() string { return m.String() }

// PauseRequest holds back the requests to a model service: POST /v1/models/pause, since
// [ModelsVersion].
type PauseRequest struct {
	Name  string    `json:"name"`
	Until time.Time `json:"until"`
}

// ModelEndpoint is where the gateway listens in an agent's network.
const ModelEndpoint = "127.0.0.1:11717"
