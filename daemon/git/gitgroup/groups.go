package gitgroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"polis/cgroup"
	"polis/daemon/git"
)

const (
	idle       = 10 * time.Second
	removeTime = 200 * time.Millisecond
	clearTime  = 5 * time.Second
	maxGone    = 1024 // names remembered; a late command of one that is forgotten makes a group for a while
)

// Groups are the groups of one process's git commands. Set the fields before use.
type Groups struct {
	Host *cgroup.Host
	// Path returns where the group of an agent is.
	Path func(agent string) string
	// Limit returns the memory of one group, in bytes; 0 is no limit.
	Limit func() int64
	// Idle is how long a group without a process is kept for the next one; 10 seconds if 0.
	Idle time.Duration
	Log  *slog.Logger

	mu     sync.Mutex
	groups map[string]*group
	gone   map[string]bool // agents that were removed
	failed bool
	closed bool
}

// group is the group of an agent while it is there.
type group struct {
	*cgroup.Group
	users int
	timer *time.Timer // removes it; nil while it has users
}

// Account returns the account of an agent; nil if git is not charged here.
func (g *Groups) Account(agent string) git.Account {
	if g == nil || g.Host == nil || agent == "" {
		return nil
	}
	return account{g, agent}
}

type account struct {
	groups *Groups
	agent  string
}

// Enter implements git.Account.
func (a account) Enter(pid int) (func() string, error) {
	g := a.groups
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.gone[a.agent] { // the process ends and ends its commands, or the agent has none
		return func() string { return "" }, nil
	}
	e, limit, err := g.open(a.agent)
	if err != nil {
		if !g.failed {
			g.Log.Warn("git is not charged to agents: each process has its own limits only", "agent", a.agent, "err", err)
		}
		g.failed = true
		return func() string { return "" }, nil
	}
	before, err := e.OOMKills()
	if err == nil {
		if err = e.Join(pid); errors.Is(err, unix.ESRCH) {
			err = nil // it has ended
		}
	}
	e.users++
	if err != nil {
		g.exited(a.agent, e)
		return nil, err
	}
	return func() string {
		g.mu.Lock()
		defer g.mu.Unlock()
		defer g.exited(a.agent, e)
		if after, err := e.OOMKills(); err != nil || after == before {
			return "" // the group is gone, or within its limit
		}
		return fmt.Sprintf("the git commands of agent %s may use %d MB of memory together (limits.git_memory_mb)", a.agent, limit>>20)
	}, nil
}

// open returns the group of an agent. The caller holds mu.
func (g *Groups) open(agent string) (*group, int64, error) {
	limit := g.Limit()
	e := g.groups[agent]
	if e == nil {
		c, err := g.Host.Group(g.Path(agent))
		if err != nil {
			return nil, 0, err
		}
		e = &group{Group: c}
	}
	if e.users == 0 { // also if it is there: the configuration may be another now
		if e.timer != nil {
			e.timer.Stop()
			e.timer = nil
		}
		// Commands have nothing to do with each other: the kernel ends the largest.
		if err := e.Ensure(cgroup.Limits{MemoryBytes: limit}); err != nil {
			if g.groups[agent] == nil {
				err = errors.Join(err, g.remove(e))
			}
			return nil, 0, err
		}
	}
	if g.groups == nil {
		g.groups = map[string]*group{}
	}
	g.groups[agent] = e
	return e, limit, nil
}

// exited is called when a process has ended. The caller holds mu.
func (g *Groups) exited(agent string, e *group) {
	if e.users--; e.users > 0 || g.closed {
		return
	}
	if g.gone[agent] {
		g.removeUnused(agent, e)
		return
	}
	g.removeLater(agent, e)
}

// Drop removes the group of an agent that is gone, now or with its last command. A
// command that comes late is charged to nobody, until Begin.
func (g *Groups) Drop(agent string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone == nil || len(g.gone) >= maxGone {
		g.gone = map[string]bool{}
	}
	g.gone[agent] = true
	if e := g.groups[agent]; e != nil && e.users == 0 {
		g.removeUnused(agent, e)
	}
}

// Begin registers an agent, also one whose name was used before.
func (g *Groups) Begin(agent string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.gone, agent)
}

// removeLater removes a group unless it is used again. The caller holds mu.
func (g *Groups) removeLater(agent string, e *group) {
	e.timer = time.AfterFunc(cmp.Or(g.Idle, idle), func() { g.removeIdle(agent, e) })
}

// removeIdle removes a group that nothing has used since the timer was set.
func (g *Groups) removeIdle(agent string, e *group) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || e.users > 0 || g.groups[agent] != e {
		return
	}
	g.removeUnused(agent, e)
}

// removeUnused removes a group without users. The caller holds mu.
func (g *Groups) removeUnused(agent string, e *group) {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	err := g.remove(e)
	if errors.Is(err, cgroup.ErrBusy) { // a process that was killed has not ended yet
		g.removeLater(agent, e)
		return
	}
	delete(g.groups, agent)
	if err != nil {
		g.Log.Warn("control group of git not removed", "agent", agent, "err", err)
	}
}

func (g *Groups) remove(e *group) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	return errors.Join(e.Remove(ctx), e.Prune())
}

// Close removes all groups. The commands in them have ended, or are killed.
func (g *Groups) Close(ctx context.Context) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	var errs []error
	for _, e := range g.groups {
		if e.timer != nil {
			e.timer.Stop()
		}
		errs = append(errs, Clear(ctx, e.Group))
	}
	g.groups = nil
	return errors.Join(errs...)
}

// Clear ends what runs in a group that another process has left, and removes it.
func Clear(ctx context.Context, g *cgroup.Group) error {
	if !g.Exists() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, clearTime)
	defer cancel()
	return errors.Join(g.Kill(ctx), g.Remove(ctx), g.Prune())
}
