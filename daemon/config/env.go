package config

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"polis/daemon/api"
)

// AgentTable is [agents.NAME].
type AgentTable struct {
	// Env are variables of the agent with this name.
	Env map[string]string `toml:"env"`
	// Audit changes that of its role.
	Audit string `toml:"audit"`
	// Mode changes policy of its role.
	Mode string `toml:"policy"`
}

// Env are the variables that an agent gets beside those of its base type: its role's,
// what polisd.toml has for it by name, and its own, of which the later ones win.
func (c *Config) Env(agent, role string, own map[string]string) map[string]string {
	out := map[string]string{}
	for _, table := range []map[string]string{c.Roles[role].Env, c.Agents[agent].Env, own} {
		maps.Copy(out, table)
	}
	return out
}

// Variables returns what the type itself gives its agents. Those of PassEnv are polisd's.
func (t BaseType) Variables() map[string]string {
	out := map[string]string{}
	for _, name := range t.PassEnv {
		if v, ok := os.LookupEnv(name); ok {
			out[name] = v
		}
	}
	maps.Copy(out, t.Env)
	return out
}

func (c *Config) checkEnv() error {
	check := func(table string, env map[string]string) error {
		if err := api.CheckEnv(env); err != nil {
			e := api.AsError(err)
			return api.Errorf(api.CodeInvalidConfig, "%s: %s", table, e.Message).WithHint("%s", e.Hint)
		}
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(c.Roles)) {
		if err := check(fmt.Sprintf("roles.%s.env", name), c.Roles[name].Env); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		if err := api.CheckName(name); err != nil {
			return api.Errorf(api.CodeInvalidConfig, "agents: %w", err)
		}
		if err := check(fmt.Sprintf("agents.%s.env", name), c.Agents[name].Env); err != nil {
			return err
		}
	}
	return nil
}
