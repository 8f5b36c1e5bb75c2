package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
)

// Setup is the [workspace.setup] table: what every worktree needs before an agent can test, which
// agents share.
type Setup struct {
	SetupRules
	// Workspaces changes it for a workspace: [workspace.setup.workspaces.NAME].
	Workspaces map[string]SetupRules `toml:"workspaces"`
}

// SetupRules are the keys of [workspace.setup]. In [workspace.setup.workspaces.NAME] a key that is
// missing is as in [workspace.setup].
type SetupRules struct {
	// Run is a shell command that makes files which git ignores; "": none.
	Run *string `toml:"run"`
	// Inputs are patterns of the tracked files that Run depends on, as in gitignore(5). A commit that
	// has none of them is not set up.
	Inputs []string `toml:"inputs"`
	// Timeout bounds Run.
	Timeout *setting.Duration `toml:"timeout"`
	// Egress is where its connections may go; without it, where those of agents without a role may.
	Egress Egress `toml:"egress"`
	// MemoryMB is its memory limit; 0: that of an agent. DiskMB bounds what it writes.
	MemoryMB *int `toml:"memory_mb"`
	DiskMB   *int `toml:"disk_mb"`
	// Keep is how many results are kept that no agent uses, besides that of the target branch.
	Keep *int `toml:"keep"`
}

const (
	maxSetupInputs = 64
	maxSetupKeep   = 100
)

func defaultSetup() Setup {
	run, limit, memory, disk, keep := "", setting.Duration(15*time.Minute), 0, 8192, 1
	return Setup{SetupRules: SetupRules{Run: &run, Timeout: &limit, MemoryMB: &memory, DiskMB: &disk, Keep: &keep}}
}

// SetupRules returns what counts for a workspace; no pointer is nil.
func (c *Config) SetupRules(workspace string) SetupRules {
	r, of := c.Workspace.Setup.SetupRules, c.Workspace.Setup.Workspaces[workspace]
	r.Run, r.Timeout = first(of.Run, r.Run), first(of.Timeout, r.Timeout)
	r.MemoryMB, r.DiskMB, r.Keep = first(of.MemoryMB, r.MemoryMB), first(of.DiskMB, r.DiskMB), first(of.Keep, r.Keep)
	if of.Inputs != nil {
		r.Inputs = of.Inputs
	}
	if of.Egress != nil {
		r.Egress = of.Egress
	}
	return r
}

func (c *Config) checkSetup() error {
	bad := func(field string, value any, rule string) *api.Error {
		return api.Errorf(api.CodeInvalidConfig, "%s = %q: %s", field, fmt.Sprint(value), rule)
	}
	tables := map[string]SetupRules{"workspace.setup": c.SetupRules("")}
	for name := range c.Workspace.Setup.Workspaces {
		tables["workspace.setup.workspaces."+name] = c.SetupRules(name)
	}
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		r := tables[table]
		limit := time.Duration(*r.Timeout)
		switch {
		case len(*r.Run) > maxCheck || strings.ContainsRune(*r.Run, 0):
			return bad(table+".run", len(*r.Run), fmt.Sprintf("must have at most %d bytes and no NUL", maxCheck))
		case *r.Run != "" && c.Workspace.Worktree != WorktreeShared:
			return bad(table+".run", api.Shorten(*r.Run, 64), `needs worktree = "shared": only worktrees with a base tree share what it makes`)
		case *r.Run != "" && len(r.Inputs) == 0:
			return bad(table+".inputs", "", "must name the files that run depends on, such as package-lock.json: it runs again when they change")
		case len(r.Inputs) > maxSetupInputs:
			return bad(table+".inputs", len(r.Inputs), fmt.Sprintf("must have at most %d patterns", maxSetupInputs))
		case limit < time.Second || limit > maxCheckTime:
			return bad(table+".timeout", limit, "must be from 1s to 24h")
		case *r.MemoryMB != 0 && (*r.MemoryMB < 16 || *r.MemoryMB > 1<<20):
			return bad(table+".memory_mb", *r.MemoryMB, "must be 0 or from 16 to 1048576")
		case *r.DiskMB < 1 || *r.DiskMB > 1<<20:
			return bad(table+".disk_mb", *r.DiskMB, "must be from 1 to 1048576")
		case *r.Keep < 0 || *r.Keep > maxSetupKeep:
			return bad(table+".keep", *r.Keep, fmt.Sprintf("must be from 0 to %d", maxSetupKeep))
		}
		if err := checkPositive(table+".inputs", r.Inputs); err != nil {
			return err
		}
		if _, err := c.Reach("", BaseType{}, Own{Egress: r.Egress}); err != nil {
			return bad(table+".egress", strings.Join(r.Egress, " "), err.Error())
		}
	}
	return nil
}
