package models

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
	"polis/daemon/config"
)

// Source has the model services of polisd's configuration. Set the fields, and use it from any
// goroutine.
type Source struct {
	Config func() config.Config
	// Getenv reads polisd's environment.
	Getenv func(string) string
	// Owner is the uid that files with keys must belong to: root's.
	Owner uint32
	Now   func() time.Time

	mu       sync.Mutex
	paused   map[string]time.Time
	turns    map[string]*order
	commands map[string]*commandKey
	files    map[string][sha256.Size]byte // hashes of the keys from files
	expired  chan struct{}
}

// For returns what the gateway of an agent with this role gets. A service whose key cannot be read is
// left out and named by the error; what is returned is valid nevertheless.
func (s *Source) For(ctx context.Context, role string) (wire.Models, error) {
	c := s.Config()
	g := c.GatewayOf(role)
	out := wire.Models{Budget: g.ModelBudget, Proxy: wire.Proxy{
		HTTP: first(s.Getenv, "HTTP_PROXY", "http_proxy"), HTTPS: first(s.Getenv, "HTTPS_PROXY", "https_proxy"), No: first(s.Getenv, "NO_PROXY", "no_proxy")}}
	if g.OnBudget != setting.BudgetRefuse && (g.ModelBudget != (setting.ModelBudget{}) || c.Roles[role].SharedBudget != (setting.SharedBudget{})) {
		out.OnBudget, out.BudgetStep = g.OnBudget, g.BudgetStep
	}
	if amounts := c.Roles[role].SharedBudget.Amounts(); len(amounts) > 0 {
		out.Shared = &wire.SharedBudget{Role: role, Bounds: slices.Sorted(maps.Keys(amounts))}
	}
	out.RecordBytes = int64(min(c.Recordings.TaskMB, c.Recordings.MaxMB)) << 20
	var errs []error
	for _, name := range g.Models {
		m, ok := c.Models[name]
		if !ok { // the configuration is checked
			continue
		}
		key, err := s.readKey(ctx, name, m.KeySource)
		if err != nil {
			errs = append(errs, fmt.Errorf("model service %s: %w", name, errors.Join(errNoKey, err)))
		}
		if err != nil && key == "" {
			continue
		}
		out.Models = append(out.Models, wire.Model{Name: name, Kind: string(m.Provider()), URL: m.Address(), Key: key,
			Allow: m.Allow, Currency: m.Currency, Prices: m.Prices, PausedUntil: s.pausedUntil(name), Record: c.Records(role, name)})
	}
	for _, name := range g.Services {
		v, ok := c.Services[name]
		if !ok {
			continue
		}
		key, err := s.readKey(ctx, name, v.KeySource)
		if err != nil {
			errs = append(errs, fmt.Errorf("service %s: %w", name, errors.Join(errNoKey, err)))
		}
		if err != nil && key == "" {
			continue
		}
		out.Services = append(out.Services, wire.Service{Name: name, URL: v.URL, Key: key, Header: v.HeaderTemplate(),
			Methods: v.AllowedMethods(), Paths: v.Paths, Forward: v.Forward(), RequestsPerMinute: v.RequestsPerMinute})
	}
	return out, errors.Join(errs...)
}

// Replay returns what the gateway of an agent that replays a task gets: the services of its role without
// keys, and the recording.
func (s *Source) Replay(role string, r wire.Replay) wire.Models {
	c := s.Config()
	out := wire.Models{Replay: &r}
	for _, name := range c.GatewayOf(role).Models {
		if m, ok := c.Models[name]; ok {
			out.Models = append(out.Models, wire.Model{Name: name, Kind: string(m.Provider()), URL: m.Address(), Allow: m.Allow})
		}
	}
	return out
}

func first(getenv func(string) string, names ...string) string {
	for _, n := range names {
		if v := getenv(n); v != "" {
			return v
		}
	}
	return ""
}

// maxPause bounds what a service can ask for.
const maxPause = time.Hour

// Pause records that a service asked an agent to wait. It reports whether that is news for other agents.
func (s *Source) Pause(name, agent string, until time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	if _, known := s.Config().Models[name]; !known || !until.After(now) {
		return false
	}
	if last := now.Add(maxPause); until.After(last) {
		until = last
	}
	if !until.After(s.paused[name]) {
		return false
	}
	if s.paused == nil {
		s.paused = map[string]time.Time{}
	}
	if s.turns == nil {
		s.turns = map[string]*order{}
	}
	if s.turns[name] == nil { // at most one for each service of the configuration
		s.turns[name] = &order{}
	}
	if !s.paused[name].After(now) { // else several requests were limited at once
		s.turns[name].next(agent)
	}
	s.paused[name] = until
	return true
}

// Turns returns how long after a pause of a service each of the agents may begin.
func (s *Source) Turns(name string, agents []string) map[string]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.turns[name]; o != nil {
		return o.delays(agents)
	}
	return nil
}

func (s *Source) pausedUntil(name string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.paused[name]; t.After(s.Now()) {
		return t
	}
	return time.Time{}
}

// Placeholder is what agents' programs get in place of a key. It is worth nothing anywhere.
const Placeholder = "polis-gateway"

// Variables changes the variables of an agent so that its program uses the gateway: those of its base
// type for each service, and none that could have a key.
func Variables(c config.Config, role string, typ config.BaseType, vars map[string]string) {
	services := c.TypeServices(role, typ)
	for _, kind := range slices.Sorted(maps.Keys(services)) {
		for _, name := range typ.Gateway[kind].Without {
			delete(vars, name)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(services)) {
		for name, value := range typ.Gateway[kind].Env {
			vars[name] = place(value, services[kind])
		}
	}
}

// ServiceVariables changes the variables of an agent so that its programs use the services of its role:
// those of each service, and the address of each.
func ServiceVariables(c config.Config, role string, vars map[string]string) {
	names := c.GatewayOf(role).Services
	for _, name := range names {
		for _, v := range c.Services[name].Without {
			delete(vars, v)
		}
	}
	for _, name := range names {
		s, ok := c.Services[name]
		if !ok {
			continue
		}
		vars[wire.ServiceEnv+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))] = wire.ServiceURL(name)
		for n, value := range s.Env {
			if !s.Any() && strings.Contains(value, "{key}") {
				continue // it would hide a login of the agent
			}
			vars[n] = strings.NewReplacer("{url}", wire.ServiceURL(name), "{key}", Placeholder).Replace(value)
		}
	}
}

// Home returns the files and answers of an agent's home: with the gateway, no login of the owner's, and
// the answers that lead the program to it.
func Home(c config.Config, role string, typ config.BaseType) ([]config.HomeFile, []config.Answer) {
	services := c.TypeServices(role, typ)
	if len(services) == 0 {
		return typ.Home, typ.Answers
	}
	files := slices.DeleteFunc(slices.Clone(typ.Home), func(f config.HomeFile) bool { return f.Mode == config.HomeCredentials })
	answers := slices.Clone(typ.Answers)
	for _, kind := range slices.Sorted(maps.Keys(services)) {
		for _, a := range typ.Gateway[kind].Answers {
			if v, ok := a.Value.(string); ok {
				a.Value = place(v, services[kind])
			}
			answers = append(answers, a)
		}
	}
	return files, answers
}

func place(text, service string) string {
	return strings.NewReplacer("{url}", "http://"+wire.ModelEndpoint+"/"+service, "{key}", Placeholder).Replace(text)
}
