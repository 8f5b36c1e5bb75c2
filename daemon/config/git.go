package config

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
)

// Remote is what an agent may do with the project's remote repositories.
type Remote string

// The permissions; each has those before it.
const (
	RemoteNone  Remote = "none"
	RemoteFetch Remote = "fetch"
	RemotePush  Remote = "push"
)

// Allows reports whether the permission is enough for another one.
func (r Remote) Allows(want Remote) bool {
	order := []Remote{RemoteNone, RemoteFetch, RemotePush}
	return slices.Index(order, r) >= slices.Index(order, want)
}

// Identity is who commits are by; "{agent}" stands for the agent's name.
type Identity struct {
	Name  string `toml:"name" json:"name,omitempty"`
	Email string `toml:"email" json:"email,omitempty"`
}

// For puts in the agent's name.
func (i Identity) For(agent string) Identity {
	r := strings.NewReplacer("{agent}", agent)
	return Identity{Name: r.Replace(i.Name), Email: r.Replace(i.Email)}
}

// GitRules are in [git], [roles.NAME.git] and [git.agents.NAME]; what one does
// not say is as in the one before.
type GitRules struct {
	Remote Remote `toml:"remote"`
	// Branches are patterns, as of path.Match, of branches of the remote that an
	// agent may push to beside those of its own.
	Branches []string `toml:"branches"`
	// Ask are the operations of those that Remote allows that a person answers first.
	Ask      []Remote `toml:"ask"`
	Identity Identity `toml:"identity"`
	// Hooks is HooksRun if the git hooks of the project run in the agent's sandbox, or HooksOff.
	Hooks string `toml:"hooks"`
}

// What agents' git does with the hooks of the project.
const (
	HooksOff = "off"
	HooksRun = "run"
)

// Git is the [git] table.
type Git struct {
	GitRules
	// Trailer names the agent in the message of a merge; "" for none.
	Trailer string              `toml:"trailer"`
	Agents  map[string]GitRules `toml:"agents"`
}

// Maintenance is the [maintenance] table: what polis does to keep shared
// repositories small and quick.
type Maintenance struct {
	Interval setting.Duration `toml:"interval"` // between two runs; 0 for never
	Grace    setting.Duration `toml:"grace"`    // what nothing needs stays this long
	Timeout  setting.Duration `toml:"timeout"`  // of one run
}

func defaultGit() Git {
	return Git{GitRules: GitRules{Remote: RemoteNone, Hooks: HooksOff}, Trailer: "Polis-Agent"}
}

func defaultMaintenance() Maintenance {
	return Maintenance{Interval: setting.Duration(24 * time.Hour), Grace: setting.Duration(14 * 24 * time.Hour), Timeout: setting.Duration(time.Hour)}
}

// GitRules returns what counts for an agent: its own table over its role's,
// over its base type's identity, over [git].
func (c *Config) GitRules(agent, role string, typ BaseType) GitRules {
	r := c.Git.GitRules
	for _, over := range []GitRules{{Identity: typ.Identity}, c.Roles[role].Git, c.Git.Agents[agent]} {
		if over.Remote != "" {
			r.Remote = over.Remote
		}
		if over.Hooks != "" {
			r.Hooks = over.Hooks
		}
		if over.Branches != nil {
			r.Branches = over.Branches
		}
		if over.Ask != nil {
			r.Ask = over.Ask
		}
		if over.Identity.Name != "" {
			r.Identity.Name = over.Identity.Name
		}
		if over.Identity.Email != "" {
			r.Identity.Email = over.Identity.Email
		}
	}
	return r
}

func (c *Config) checkGit() error {
	if t := c.Git.Trailer; strings.Trim(t, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-") != "" || len(t) > 64 {
		return api.Errorf(api.CodeInvalidConfig, "git.trailer = %q: must have at most 64 letters, digits and dashes", api.Shorten(t, 80))
	}
	tables := map[string]GitRules{"git": c.Git.GitRules}
	for name, r := range c.Roles {
		tables["roles."+name+".git"] = r.Git
	}
	for name, r := range c.Git.Agents {
		if err := api.CheckName(name); err != nil {
			return api.Errorf(api.CodeInvalidConfig, "git.agents.%s: %w", api.Shorten(name, 64), err)
		}
		tables["git.agents."+name] = r
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		r := tables[name]
		if err := r.check(); err != nil {
			return api.Errorf(api.CodeInvalidConfig, "%s.%w", name, err)
		}
	}
	m := c.Maintenance
	for _, f := range []struct {
		name   string
		v      setting.Duration
		lo, hi time.Duration
	}{{"interval", m.Interval, 0, 365 * 24 * time.Hour}, {"grace", m.Grace, time.Hour, 10 * 365 * 24 * time.Hour}, {"timeout", m.Timeout, time.Minute, 24 * time.Hour}} {
		if v := time.Duration(f.v); v < f.lo || v > f.hi {
			return api.Errorf(api.CodeInvalidConfig, "maintenance.%s = %q: must be from %s to %s", f.name, v, f.lo, f.hi)
		}
	}
	return nil
}

func (r *GitRules) check() error {
	switch r.Remote {
	case "", RemoteNone, RemoteFetch, RemotePush:
	default:
		return fmt.Errorf("remote = %q: must be \"none\", \"fetch\" or \"push\"", api.Shorten(string(r.Remote), 64))
	}
	if r.Hooks != "" && r.Hooks != HooksOff && r.Hooks != HooksRun {
		return fmt.Errorf("hooks = %q: must be \"off\" or \"run\"", api.Shorten(r.Hooks, 64))
	}
	for _, op := range r.Ask {
		if op != RemoteFetch && op != RemotePush {
			return fmt.Errorf("ask: %q is no operation: must be \"fetch\" or \"push\"", api.Shorten(string(op), 64))
		}
	}
	if len(r.Branches) > 256 {
		return fmt.Errorf("branches has %d patterns: at most 256", len(r.Branches))
	}
	for _, p := range r.Branches {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return fmt.Errorf("branches: %q is not a pattern for names of branches", api.Shorten(p, 64))
		}
	}
	return r.Identity.check()
}

// check refuses what git could not write into a commit.
func (i Identity) check() error {
	for field, v := range map[string]string{"name": i.Name, "email": i.Email} {
		if len(v) > 256 || strings.ContainsAny(v, "<>\n\r\x00") {
			return fmt.Errorf("identity.%s = %q: must have at most 256 bytes, no angle brackets and no line break", field, api.Shorten(v, 64))
		}
	}
	// git drops these from the ends, and refuses a name of nothing else.
	if i.Name != "" && strings.Trim(i.Name, " .,:;<>\"\\'") == "" {
		return errors.New("identity.name: has no letter")
	}
	return nil
}
