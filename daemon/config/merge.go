package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
)

// Merge is the [merge] table: when and how branches are merged.
type Merge struct {
	MergeRules
	// Workspaces changes it for a workspace: [merge.workspaces.NAME].
	Workspaces map[string]MergeRules `toml:"workspaces"`
}

// MergeRules are the keys of [merge]. In [merge.workspaces.NAME] what is not
// said is as in [merge].
type MergeRules struct {
	// AutoMerge merges the branch of a task that ends well.
	AutoMerge *bool `toml:"auto_merge"`
	// RemoveAfter removes an agent, with its worktree and own branch, when its
	// branch is merged and it has no other work.
	RemoveAfter *bool `toml:"remove_after"`
	// Check is a shell command that must succeed on the merge result.
	Check *string `toml:"check"`
	// Sign has merges wait for the signature of a person.
	Sign *bool `toml:"sign"`
	// Hooks runs the hooks of the project for merges, before Check.
	Hooks *bool `toml:"hooks"`
	// CheckTimeout bounds it.
	CheckTimeout *setting.Duration `toml:"check_timeout"`
	// CheckMemoryMB is its memory limit; 0: that of an agent.
	CheckMemoryMB *int `toml:"check_memory_mb"`
	// OnStart is how an agent's branch is brought up to date before a task, if the target
	// has moved: OnStartUpdate, OnStartRebase or OnStartKeep.
	OnStart *string `toml:"on_start"`
	// Rework is what is done about a branch that conflicts, or fails the check: api.ReworkOffer and
	// the others.
	Rework *string `toml:"rework"`
	// Batch is how many waiting branches are merged and checked together.
	Batch *int `toml:"batch"`
	// Protected are the paths whose changes are merged only after a person
	// accepted them, as in gitignore(5). ProtectedDefault stands for DefaultProtected. .worktreeinclude
	// is protected whatever the list is.
	Protected []string `toml:"protected"`
	// Identity is who merges and reverts are by; what is empty is of the project's owner.
	Identity Identity `toml:"identity"`
}

// Trash is the [trash] table.
type Trash struct {
	// TTL is how long polisctl gc keeps work in the trash.
	TTL setting.Duration `toml:"ttl"`
}

// What is done before a task.
const (
	// OnStartUpdate brings a branch without work of its own forward to the target.
	OnStartUpdate = "update"
	// OnStartRebase also merges the target into one that has commits of its own, if
	// there is no conflict.
	OnStartRebase = "rebase"
	// OnStartKeep leaves it.
	OnStartKeep = "keep"
)

const (
	maxCheck     = 64 << 10
	maxCheckTime = 24 * time.Hour
	maxBatch     = 64
)

func defaultMerge() Merge {
	auto, remove, check, limit, mem, batch := true, false, "", setting.Duration(10*time.Minute), 0, 16
	start, rework, sign, hooks := OnStartUpdate, api.ReworkOffer, false, false
	return Merge{MergeRules: MergeRules{AutoMerge: &auto, Sign: &sign, Hooks: &hooks, RemoveAfter: &remove, Check: &check, CheckTimeout: &limit, CheckMemoryMB: &mem, Batch: &batch, OnStart: &start, Rework: &rework, Protected: []string{ProtectedDefault}}}
}

// MergeRules returns what counts for a workspace; no field is nil.
func (c *Config) MergeRules(workspace string) MergeRules {
	r, of := c.Merge.MergeRules, c.Merge.Workspaces[workspace]
	r.AutoMerge, r.Check, r.CheckTimeout = first(of.AutoMerge, r.AutoMerge), first(of.Check, r.Check), first(of.CheckTimeout, r.CheckTimeout)
	r.RemoveAfter, r.Sign = first(of.RemoveAfter, r.RemoveAfter), first(of.Sign, r.Sign)
	r.Hooks = first(of.Hooks, r.Hooks)
	r.CheckMemoryMB, r.Batch = first(of.CheckMemoryMB, r.CheckMemoryMB), first(of.Batch, r.Batch)
	r.OnStart, r.Rework = first(of.OnStart, r.OnStart), first(of.Rework, r.Rework)
	if of.Protected != nil {
		r.Protected = of.Protected
	}
	r.Protected = expandProtected(r.Protected)
	r.Identity = Identity{Name: cmp.Or(of.Identity.Name, r.Identity.Name), Email: cmp.Or(of.Identity.Email, r.Identity.Email)}
	return r
}

// AutoMerge reports whether tasks of an agent that end well are merged: as the
// agent has it, else its type, else the workspace, else [merge].
func (c *Config) AutoMerge(workspace string, t BaseType, agent *bool) bool {
	return *first(agent, first(t.AutoMerge, c.MergeRules(workspace).AutoMerge))
}

// RemoveAfter reports whether an agent is removed when its branch is merged: as the
// agent has it, else its role, else the workspace, else [merge].
func (c *Config) RemoveAfter(workspace, role string, agent *bool) bool {
	return *first(agent, first(c.Roles[role].RemoveAfter, c.MergeRules(workspace).RemoveAfter))
}

// OnStart returns what is done with an agent's branch before a task: as its role has it,
// else the workspace, else [merge].
func (c *Config) OnStart(workspace, role string) string {
	if s := c.Roles[role].OnStart; s != "" {
		return s
	}
	return *c.MergeRules(workspace).OnStart
}

func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

const onStartRule = "must be update, rebase or keep"

func (c *Config) checkMerge() error {
	bad := func(field string, value any, rule string) error {
		return api.Errorf(api.CodeInvalidConfig, "%s = %q: %s", field, fmt.Sprint(value), rule)
	}
	if ttl := time.Duration(c.Trash.TTL); ttl < time.Hour || ttl > 10*365*24*time.Hour {
		return bad("trash.ttl", ttl, "must be from 1h to 87600h")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Roles)) {
		if s := c.Roles[name].OnStart; s != "" && !slices.Contains([]string{OnStartUpdate, OnStartRebase, OnStartKeep}, s) {
			return bad("roles."+name+".on_start", s, onStartRule)
		}
	}
	tables := map[string]MergeRules{"merge": c.Merge.MergeRules}
	for name, r := range c.Merge.Workspaces {
		tables["merge.workspaces."+name] = r
	}
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		r := tables[table]
		switch {
		case r.Check != nil && (len(*r.Check) > maxCheck || strings.ContainsRune(*r.Check, 0)):
			return bad(table+".check", len(*r.Check), fmt.Sprintf("must have at most %d bytes and no NUL", maxCheck))
		case r.CheckTimeout != nil && (time.Duration(*r.CheckTimeout) < time.Second || time.Duration(*r.CheckTimeout) > maxCheckTime):
			return bad(table+".check_timeout", time.Duration(*r.CheckTimeout), "must be from 1s to 24h")
		case r.CheckMemoryMB != nil && *r.CheckMemoryMB != 0 && (*r.CheckMemoryMB < 16 || *r.CheckMemoryMB > 1<<20):
			return bad(table+".check_memory_mb", *r.CheckMemoryMB, "must be 0 or from 16 to 1048576")
		case r.OnStart != nil && !slices.Contains([]string{OnStartUpdate, OnStartRebase, OnStartKeep}, *r.OnStart):
			return bad(table+".on_start", *r.OnStart, onStartRule)
		case r.Rework != nil && !slices.Contains([]string{api.ReworkNone, api.ReworkOffer, api.ReworkNew, api.ReworkSame}, *r.Rework):
			return bad(table+".rework", *r.Rework, "must be none, offer, new or same")
		case r.Batch != nil && (*r.Batch < 1 || *r.Batch > maxBatch):
			return bad(table+".batch", *r.Batch, fmt.Sprintf("must be from 1 to %d", maxBatch))
		}
		if err := r.Identity.check(); err != nil {
			return api.Errorf(api.CodeInvalidConfig, "%s.%w", table, err)
		}
		list := expandProtected(r.Protected)
		if len(list) > maxProtected {
			return bad(table+".protected", len(list), fmt.Sprintf("at most %d patterns", maxProtected))
		}
		if err := checkRuleList(table+".protected", list); err != nil {
			return err
		}
	}
	return nil
}
