package agent

import (
	"context"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/config"
)

// blocked is who has dropped packets of an agent at any time since then (the zero time: who does now); nil if nobody
// has, or the agent reaches nothing anyway.
func (m *Manager) blocked(a *Agent, since time.Time) *api.Error {
	if m.Blocked == nil {
		return nil
	}
	m.mu.Lock()
	r, err := m.cfgLive.Reach(a.Kept.Role, a.Type, ownReach(a.Kept))
	m.mu.Unlock()
	if err != nil || reachesNothing(r) {
		return nil //nolint:nilerr // a role that is gone: its start has the error
	}
	return m.Blocked(since)
}

// reachesNothing reports whether the egress is "none".
func reachesNothing(r config.Reach) bool {
	e := r.Policy.Entries()
	return len(e) == 1 && e[0] == "none"
}

// blockedWarning is the text for people, "" if nothing is blocked.
func blockedWarning(e *api.Error) []string {
	if e == nil {
		return nil
	}
	return []string{e.Message + ": " + e.Hint}
}

// withBlocked puts who drops the agent's packets now first, instead of what its shim has recorded of earlier times.
func withBlocked(why []api.WhyEntry, e *api.Error, now time.Time) []api.WhyEntry {
	why = slices.DeleteFunc(why, func(w api.WhyEntry) bool { return w.Code == api.CodeNetworkBlocked })
	if e == nil {
		return why
	}
	return append([]api.WhyEntry{whyBlocked(e, now)}, why...)
}

func whyBlocked(e *api.Error, now time.Time) api.WhyEntry {
	return api.WhyEntry{Time: now.UTC(), Op: "connection", Path: "the network outside", Code: api.CodeNetworkBlocked, Errno: "ETIMEDOUT",
		Hint: e.Message + ": " + e.Hint}
}

// NoteBlocked has an agent's shim record who drops its packets, for the programs in its sandbox. An agent whose shim is
// of an earlier version, or that reaches nothing anyway, has no such record.
func (m *Manager) NoteBlocked(ctx context.Context, name string, e *api.Error) error {
	a, err := m.lookup(name)
	if err != nil {
		return err
	}
	if m.blocked(a, time.Time{}) == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, blockedTime)
	defer cancel()
	sh := m.Shims.Dial(name)
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		return err
	}
	if v, err := wire.Agree(st); err != nil || v < wire.GateVersion {
		return err
	}
	return sh.Blocked(ctx, wire.BlockedRequest{Reason: e.Message, Hint: e.Hint})
}

// blockedTime bounds the record, which a task waits for.
const blockedTime = 2 * time.Second
