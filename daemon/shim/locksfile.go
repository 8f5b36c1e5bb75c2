package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/lockd"
)

// noLocks is the file's content if there are none.
const noLocks = "No locks are held.\n"

// losses has the last leases that were taken from the agent.
type losses struct {
	mu   sync.Mutex
	last []loss
}

type loss struct {
	Time time.Time `json:"time"`
	Path string    `json:"path"`
	Why  string    `json:"why"`
}

const maxLosses = 32

func (l *losses) add(now time.Time, keys []string, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys[:min(len(keys), maxLosses)] {
		l.last = append(l.last, loss{now, lockd.FilePath(k), why})
	}
	l.last = l.last[max(len(l.last)-maxLosses, 0):]
}

func (l *losses) list() []loss {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]loss{}, l.last...)
}

// behinds has the last changes of the target that the agent waited for and does not have.
type behinds struct {
	mu   sync.Mutex
	last []api.TargetChange
}

func (b *behinds) add(c api.TargetChange) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = append(slices.DeleteFunc(b.last, func(o api.TargetChange) bool { return o.Path == c.Path }), c)
	b.last = b.last[max(len(b.last)-maxLosses, 0):]
}

func (b *behinds) list() []api.TargetChange {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.last)
}

// touchLocks marks the file of locks as outdated; it never blocks.
func (in *insideAPI) touchLocks() {
	select {
	case in.locks <- struct{}{}:
	default:
	}
}

// ownLocks queries polisd for the agent's locks and their waiters.
func (s *Shim) ownLocks(ctx context.Context) (api.InsideLocks, error) {
	leases, total, err := s.views.locks.Own(ctx)
	if err != nil {
		return api.InsideLocks{}, err
	}
	out := api.InsideLocks{Locks: []api.Lock{}, Total: total}
	for _, l := range leases {
		a := api.Lock{Workspace: l.Workspace, Path: lockd.FilePath(l.Path), Holder: l.Holder, LockType: string(l.Mode), AcquiredAt: l.Since,
			Token: l.Token, Reason: l.Reason, Tree: l.Tree, Op: l.Op, Hold: l.Hold()}
		if !l.Expires.IsZero() {
			a.ExpiresAt = &l.Expires
		}
		for _, w := range l.Waiting {
			a.Waiters = append(a.Waiters, w.Holder)
			a.Waiting = append(a.Waiting, api.Waiter{Holder: w.Holder, Since: w.Since, Op: w.Op})
		}
		out.Locks = append(out.Locks, a)
	}
	return out, nil
}

const (
	// locksPause is the shortest time between two versions of the file.
	locksPause = 100 * time.Millisecond
	// locksAgain is when the file is made again if polisd was not available, or if it names
	// waiters: no event reports that one gave up.
	locksAgain = time.Second
)

// keepLocks rewrites /run/polis/locks after changes: soon, but at a bounded rate, so that an
// agent which writes many files is not slowed down.
func (s *Shim) keepLocks() {
	var again <-chan time.Time
	pause := time.Duration(0)
	for {
		select {
		case <-s.views.locks.Changes():
		case <-s.inside.locks:
		case <-again:
		case <-s.ctx.Done():
			return
		}
		select { // many changes are one version
		case <-time.After(pause):
		case <-s.ctx.Done():
			return
		}
		began := time.Now()
		awaited, err := s.writeLocks()
		again = nil
		if err != nil || awaited {
			again = time.After(locksAgain)
		}
		if err != nil && !errors.Is(err, lockd.ErrUnavailable) {
			s.Log.Error("list of locks not written", "err", err)
		}
		pause = max(locksPause, 20*time.Since(began))
	}
}

// writeLocks makes the two files; awaited reports that they name waiters.
func (s *Shim) writeLocks() (awaited bool, err error) {
	locks, err := s.ownLocks(s.ctx)
	if err != nil {
		return false, err
	}
	for _, l := range locks.Locks {
		awaited = awaited || len(l.Waiting) > 0
	}
	lost, behind := s.views.lost.list(), s.views.behind.list()
	js, err := json.MarshalIndent(struct {
		api.InsideLocks
		Lost    []loss             `json:"lost,omitempty"`
		Changed []api.TargetChange `json:"changed,omitempty"`
	}{locks, lost, behind}, "", "  ")
	if err != nil {
		return awaited, err
	}
	return awaited, errors.Join(replaceFile(filepath.Join(s.inside.dir, "locks"), locksText(s.Spec.Agent, locks, lost, behind)),
		replaceFile(filepath.Join(s.inside.dir, "locks.json"), string(js)+"\n"))
}

// locksText is the list for people and agents.
func locksText(agent string, locks api.InsideLocks, lost []loss, behind []api.TargetChange) string {
	var b strings.Builder
	if len(locks.Locks) == 0 {
		b.WriteString(noLocks)
	}
	for _, l := range locks.Locks {
		path := l.Path
		if l.Tree {
			path += "/**"
		}
		fmt.Fprintf(&b, "%s  %s, since %s", line(path), l.LockType, l.AcquiredAt.Format(time.TimeOnly))
		switch {
		case l.ExpiresAt != nil:
			fmt.Fprintf(&b, ", until %s", l.ExpiresAt.Format(time.TimeOnly))
		case l.Hold == "merge":
			b.WriteString(", until it is merged")
		case l.Hold == "explicit":
			b.WriteString(", until it is unlocked")
		}
		b.WriteByte('\n')
		if l.Reason != "" {
			fmt.Fprintf(&b, "  reason:    %s\n", line(l.Reason))
		}
		for _, w := range l.Waiting {
			fmt.Fprintf(&b, "  awaited:   %s waits for it since %s (%s)\n", w.Holder, w.Since.Format(time.TimeOnly), w.Op)
		}
	}
	if more := locks.Total - len(locks.Locks); more > 0 {
		fmt.Fprintf(&b, "and %d more: polisctl agents locks %s, on the host, lists all\n", more, agent)
	}
	for _, l := range lost {
		fmt.Fprintf(&b, "lost: %s at %s: %s\n", line(l.Path), l.Time.Format(time.TimeOnly), line(l.Why))
	}
	for _, c := range behind {
		fmt.Fprintf(&b, "changed: %s\n", line(c.Text()))
	}
	return b.String()
}

// line replaces control characters, so that a text stays on its line.
func line(s string) string {
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return fmt.Sprintf("%q", s)
		}
	}
	return s
}
