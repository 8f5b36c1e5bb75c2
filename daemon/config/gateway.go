package config

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/gateway/budget"
	"polis/daemon/gateway/provider"
)

// Model is [models.NAME]: a model service that agents reach by the gateway of their shims.
type Model struct {
	// Kind is one of provider.Kinds; "" is provider.Compatible.
	Kind string `toml:"kind"`
	// URL is the address of the service; "" is the provider's own.
	URL string `toml:"url"`
	KeySource
	// Allow are patterns of the models that agents may use; none: all.
	Allow []string `toml:"allow_models"`
	// Record keeps the requests of tasks to the service, and the answers.
	Record bool `toml:"record"`
	// Currency of Prices, as in ISO 4217.
	Currency string               `toml:"currency"`
	Prices   []setting.ModelPrice `toml:"prices"`
}

// Gateway is in [gateway], and in [roles.NAME.gateway], where what is not set is as in [gateway].
type Gateway struct {
	// Models are the names of the services that agents use; nil is what was not set.
	Models []string `toml:"models"`
	// Record keeps the requests of tasks to all services, and the answers; nil is what was not set.
	Record *bool `toml:"record"`
	// Services are the names of those that are no model services, likewise.
	Services []string `toml:"services"`
	setting.ModelBudget
	// OnBudget is one of setting.BudgetEnds; "" is what was not set. BudgetStep is how much an approval
	// raises a spent budget by, in percent of it; 0 is what was not set.
	OnBudget   string `toml:"on_budget"`
	BudgetStep int    `toml:"budget_step"`
}

func defaultGateway() Gateway {
	return Gateway{OnBudget: setting.BudgetRefuse, BudgetStep: defaultBudgetStep}
}

// defaultBudgetStep is in percent. 0 would raise nothing.
const defaultBudgetStep = 50

// TypeGateway is how the program of a base type uses a model service. In values, "{url}" is the address
// of the endpoint in the sandbox, and "{key}" a word that is no key.
type TypeGateway struct {
	// Env are variables for the program, Without those that it must not have: they could carry a key.
	Env     map[string]string `toml:"env" json:"env,omitempty"`
	Without []string          `toml:"without" json:"without,omitempty"`
	Answers []Answer          `toml:"answers" json:"answers,omitempty"`
}

const (
	maxModels   = 32
	maxPrices   = 256
	maxPatterns = 64
)

var (
	serviceName    = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)
	currencyName   = regexp.MustCompile(`^[A-Z]{3}$`)
	credentialName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)
)

// GatewayOf returns what counts for agents of a role. A role that does not exist changes nothing.
func (c *Config) GatewayOf(role string) Gateway {
	g, over := c.Gateway, c.Roles[role].Gateway
	if over.Models != nil {
		g.Models = over.Models
	}
	if over.Record != nil {
		g.Record = over.Record
	}
	if over.Services != nil {
		g.Services = over.Services
	}
	g.RequestsPerMinute = cmp.Or(over.RequestsPerMinute, g.RequestsPerMinute)
	g.TaskTokens, g.DayTokens = cmp.Or(over.TaskTokens, g.TaskTokens), cmp.Or(over.DayTokens, g.DayTokens)
	g.OnBudget, g.BudgetStep = cmp.Or(over.OnBudget, g.OnBudget), cmp.Or(over.BudgetStep, g.BudgetStep, defaultBudgetStep)
	g.TaskMoney, g.DayMoney = cmp.Or(over.TaskMoney, g.TaskMoney), cmp.Or(over.DayMoney, g.DayMoney)
	return g
}

// UsesModel reports whether agents of a role use a model service.
func (c *Config) UsesModel(role, model string) bool {
	return slices.Contains(c.GatewayOf(role).Models, model)
}

// TypeServices returns which service a base type's program uses for each kind that it knows: the first
// one of the role. It is empty if the program uses none.
func (c *Config) TypeServices(role string, typ BaseType) map[string]string {
	out := map[string]string{}
	for _, name := range c.GatewayOf(role).Models {
		kind := string(c.Models[name].Provider())
		if _, ok := typ.Gateway[kind]; !ok && kind == string(provider.Compatible) {
			kind = string(provider.OpenAI)
		}
		if _, ok := typ.Gateway[kind]; ok && out[kind] == "" {
			out[kind] = name
		}
	}
	return out
}

// Provider returns the kind of a service.
func (m Model) Provider() provider.Kind { return cmp.Or(provider.Kind(m.Kind), provider.Compatible) }

// Address returns the address of a service; "" if it has none.
func (m Model) Address() string { return cmp.Or(m.URL, m.Provider().DefaultURL()) }

func (c *Config) checkGateway() error {
	bad := func(field string, value any, rule string) error {
		return api.Errorf(api.CodeInvalidConfig, "%s = %q: %s", field, fmt.Sprint(value), rule)
	}
	if len(c.Models) > maxModels {
		return api.Errorf(api.CodeInvalidConfig, "models: there are %d: at most %d", len(c.Models), maxModels)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		if !serviceName.MatchString(name) {
			return bad("models", api.Shorten(name, 64), "a name has small letters, digits and '-', and at most 31 of them")
		}
		if err := c.Models[name].check(); err != nil {
			return api.Errorf(api.CodeInvalidConfig, "models.%s.%w", name, err)
		}
	}
	tables := map[string]Gateway{"gateway": c.Gateway}
	for name, r := range c.Roles {
		table := "roles." + name + ".shared_budget."
		if n := r.SharedBudget.DayTokens; n < 0 || n > 1e15 {
			return bad(table+"day_tokens", n, "must be from 0 (no limit) to 1000000000000000")
		}
		if n := r.SharedBudget.DayMoney; !(n >= 0 && n <= 1e9) {
			return bad(table+"day_money", n, "must be from 0 (no limit) to 1000000000")
		}
		tables["roles."+name+".gateway"] = r.Gateway
	}
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		g := tables[table]
		for _, name := range g.Models {
			if m, ok := c.Models[name]; !ok {
				return bad(table+".models", api.Shorten(name, 64), "there is no table [models.NAME] of this name")
			} else if m.Address() == "" {
				return api.Errorf(api.CodeInvalidConfig, "models.%s.url: must be set for kind = %q", name, m.Provider())
			}
		}
		if g.RequestsPerMinute < 0 || g.RequestsPerMinute > maxPerMinute {
			return bad(table+".requests_per_minute", g.RequestsPerMinute, "must be from 0 (no limit) to 100000")
		}
		if g.OnBudget != "" && !slices.Contains(setting.BudgetEnds(), g.OnBudget) {
			return bad(table+".on_budget", api.Shorten(g.OnBudget, 64), fmt.Sprintf("must be one of %q", setting.BudgetEnds()))
		}
		if g.BudgetStep < 0 || g.BudgetStep > 1000 {
			return bad(table+".budget_step", g.BudgetStep, "must be from 0 (the default) to 1000")
		}
		for field, n := range map[string]int64{"task_tokens": g.TaskTokens, "day_tokens": g.DayTokens} {
			if n < 0 || n > 1e15 {
				return bad(table+"."+field, n, "must be from 0 (no limit) to 1000000000000000")
			}
		}
		for field, n := range map[string]float64{"task_money": g.TaskMoney, "day_money": g.DayMoney} {
			if !(n >= 0 && n <= 1e9) {
				return bad(table+"."+field, n, "must be from 0 (no limit) to 1000000000")
			}
		}
	}
	return nil
}

func (m Model) check() error {
	kinds := provider.Kinds()
	if !slices.Contains(kinds, m.Provider()) {
		return fmt.Errorf("kind = %q: must be one of %q", api.Shorten(m.Kind, 64), kinds)
	}
	if m.Address() != "" { // else it cannot be used
		if _, err := provider.ParseURL(m.Address()); err != nil {
			return err
		}
	}
	if err := m.KeySource.check(); err != nil {
		return err
	}
	switch {
	case m.Currency != "" && !currencyName.MatchString(m.Currency):
		return fmt.Errorf("currency = %q: must be three capital letters, such as EUR", api.Shorten(m.Currency, 16))
	case len(m.Prices) > maxPrices || len(m.Allow) > maxPatterns:
		return fmt.Errorf("at most %d prices and %d patterns of models", maxPrices, maxPatterns)
	}
	for i, p := range m.Allow {
		if err := budget.CheckPattern(p); err != nil {
			return fmt.Errorf("allow_models[%d] = %q: %w", i, p, err)
		}
	}
	for i, p := range m.Prices {
		if err := budget.CheckPrice(p); err != nil {
			return fmt.Errorf("prices[%d].%w", i, err)
		}
	}
	return nil
}

func (t *BaseType) checkGateway() error {
	for _, kind := range slices.Sorted(maps.Keys(t.Gateway)) {
		g := t.Gateway[kind]
		if !serviceName.MatchString(kind) { // an unknown kind has no effect
			return fmt.Errorf("gateway.%s: must be one of %q", api.Shorten(kind, 64), provider.Kinds())
		}
		if err := checkVariables("gateway."+kind+".", g.Env, g.Without); err != nil {
			return err
		}
		for i := range g.Answers {
			if err := t.checkAnswer(&g.Answers[i]); err != nil {
				return fmt.Errorf("gateway.%s.answers[%d].%w", kind, i, err)
			}
		}
	}
	return nil
}
