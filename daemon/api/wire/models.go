package wire

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
)

const (
	// ModelsVersion is the first version whose shims have a gateway to model services.
	ModelsVersion = 24
	// ServicesVersion is the first version whose gateway has other services, too.
	ServicesVersion = 27
	// ServiceRateVersion is the first whose gateway bounds the requests to each service.
	ServiceRateVersion = 30
	// BudgetEndVersion is the first whose gateway can ask a person, or end the agent's task, when a budget is spent.
	BudgetEndVersion = 32
	// TurnVersion is the first whose gateway waits for the agent's turn after a pause.
	TurnVersion = 33
	// SharesVersion is the first whose gateway has a budget that the agents of a role share.
	SharesVersion = 35
)

// RecordVersion is the first version whose shims record requests to model services, and answer them from
// a recording.
const RecordVersion = 26

// Models are the model services of an agent: POST /v1/models, since [ModelsVersion]. A request has
// all of them; it replaces what was set before. The shim holds them in memory only, because they
// have keys.
type Models struct {
	Models []Model `json:"models"`
	// Services are those that are no model services. Since [ServicesVersion].
	Services []Service `json:"services,omitempty"`
	// Budget bounds what the agent uses of all of them.
	Budget setting.ModelBudget `json:"budget,omitzero"`
	// OnBudget is what happens when the budget is spent, one of setting.BudgetEnds; "" is setting.BudgetRefuse. BudgetStep
	// is how much a person raises it by, in percent. Since [BudgetEndVersion].
	OnBudget   string `json:"on_budget,omitempty"`
	BudgetStep int    `json:"budget_step,omitempty"`
	// Shared: the agent's role has a budget that its agents share. Since [SharesVersion].
	Shared *SharedBudget `json:"shared,omitempty"`
	// Proxy is how the host reaches the services.
	Proxy Proxy `json:"proxy,omitzero"`
	// RecordBytes bounds the recording of one task. Since [RecordVersion].
	RecordBytes int64 `json:"record_bytes,omitempty"`
	// Replay: all requests are answered from a recording, and none is sent. Since [RecordVersion].
	Replay *Replay `json:"replay,omitempty"`
}

// Replay is the recording that an agent's requests are answered from.
type Replay struct {
	// File is a recording; only root can read it.
	File string `json:"file"`
	// Agents are the names of the agent whose task was recorded and of the one that replays it.
	Agents []string `json:"agents,omitempty"`
	// ByOrder answers a request that the recording does not have with the next one.
	ByOrder bool `json:"by_order,omitempty"`
}

// Replayed is the result of the requests of a replay: GET /v1/models/replay, since [RecordVersion].
type Replayed struct {
	api.ReplayCounts
	// Error is why the recording cannot be read: all requests are refused.
	Error string `json:"error,omitempty"`
}

// Without returns what a shim of an older version understands, and what it does not get.
func (m Models) Without(version int) (Models, error) {
	var err error
	if version < SharesVersion && m.Shared != nil && len(m.Models) > 0 { // it would exceed the budget
		m.Models, m.Shared, err = nil, nil, errors.New("the agent has no models, because its role has a shared_budget: its shim is of an older polis: start the agent again")
	}
	if version < ServicesVersion && len(m.Services) > 0 {
		m.Services, err = nil, errors.Join(err, errors.New("the agent has no services: its shim is of an older polis: start the agent again"))
	}
	if version < BudgetEndVersion && m.OnBudget != "" {
		m.OnBudget, m.BudgetStep = "", 0
		err = errors.Join(err, errors.New("requests are refused when its budget is spent (on_budget): its shim is of an older polis: start the agent again"))
	}
	if version < ServiceRateVersion {
		m.Services = slices.Clone(m.Services)
		m.Services = slices.DeleteFunc(m.Services, func(s Service) bool {
			if s.RequestsPerMinute > 0 { // it would have no limit
				err = errors.Join(err, fmt.Errorf("the agent has no service %s, which has requests_per_minute: its shim is of an older polis: start the agent again", s.Name))
			}
			return s.RequestsPerMinute > 0
		})
	}
	if version >= RecordVersion {
		return m, err
	}
	if m.Replay != nil {
		return Models{}, errors.New("its shim is of an older polis, and has no replays: start the agent again")
	}
	m.RecordBytes, m.Models = 0, slices.Clone(m.Models)
	recorded := false
	for i := range m.Models {
		recorded = recorded || m.Models[i].Record
		m.Models[i].Record = false
	}
	if recorded {
		err = errors.Join(err, errors.New("nothing is recorded: its shim is of an older polis: start the agent again"))
	}
	return m, err
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
	// Record keeps the requests of tasks and their answers. Since [RecordVersion].
	Record bool `json:"record,omitempty"`
}

// Service is a service that is no model service. The shim checks every request against Methods and Paths.
type Service struct {
	// Name is that of [services.NAME], the first part of Name+ServiceDomain, and the first part of the path
	// at the agent's endpoint.
	Name string `json:"name"`
	URL  string `json:"url"`
	// Key is a secret; "" if the service needs none.
	Key string `json:"key,omitempty"`
	// Header is as access.ParseHeader reads it, Methods and Paths as access.ParseRules does.
	Header  string   `json:"header"`
	Methods []string `json:"methods"`
	Paths   []string `json:"paths"`
	// Forward are further headers of requests that reach the service, in canonical form.
	Forward []string `json:"forward,omitempty"`
	// RequestsPerMinute bounds the agent's requests to the service; 0: no bound. Since [ServiceRateVersion].
	RequestsPerMinute int `json:"requests_per_minute,omitempty"`
}

// LogValue keeps the key out of logs.
func (s Service) LogValue() slog.Value { return slog.StringValue("service " + s.Name) }

// String keeps the key out of texts.
func (s Service) String() string { return "service " + s.Name }

// GoString does so for %#v.
func (s Service) GoString() string { return s.String() }

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
	// Turn is how long after it the agent may begin. Since [TurnVersion].
	Turn setting.Duration `json:"turn,omitempty"`
}

// ModelEndpoint is where the gateway listens in an agent's network.
const ModelEndpoint = "127.0.0.1:11717"

// ServiceDomain is the end of the names of services in an agent's network. They resolve to the endpoint.
const ServiceDomain = ".polis.internal"

// ServiceEnv is the beginning of the variables that have the addresses of services.
const ServiceEnv = "POLIS_SERVICE_"

// IsServiceName reports whether a name, in small letters, is one of services.
func IsServiceName(name string) bool { return strings.HasSuffix("."+name, ServiceDomain) }

// ServiceURL returns the address of a service for the agent's programs.
func ServiceURL(name string) string {
	_, port, _ := strings.Cut(ModelEndpoint, ":")
	return "http://" + name + ServiceDomain + ":" + port
}
