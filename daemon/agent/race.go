package agent

import (
	"context"
	"strings"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/history/task"
)

// checkTail bounds what is kept of the output of a check, in bytes.
const checkTail = 4 << 10

// AddRacer adds an agent of a race and gives it the task, or finds both as an earlier polisd left
// them. It returns the ID of the task.
func (m *Manager) AddRacer(ctx context.Context, req api.AddRequest, run api.RunRequest) (string, error) {
	a, err := m.lookup(req.Name)
	switch {
	case api.CodeOf(err) == api.CodeAgentNotFound && err != nil:
		if err := checkPrompt(run.Prompt); err != nil {
			return "", err
		}
		if _, err := m.Add(ctx, req); err != nil {
			return "", err
		}
		m.crash("race:added")
	case err != nil:
		return "", err
	case a.Copy().Race != req.Race:
		return "", api.Errorf(api.CodeAgentExists, "agent %s is not of race %s", req.Name, req.Race).WithHint("polisctl races list shows them")
	}
	if id, err := m.GivenTask(req.Name, run.Prompt); err != nil || id != "" {
		return id, err
	}
	if a, err = m.racer(ctx, req.Name, req.Race); err != nil {
		return "", err
	}
	defer a.op.Unlock()
	t, err := m.giveTask(ctx, a, run)
	return t.ID, err
}

// TaskOK reports whether a task ended well.
func TaskOK(t api.Task) bool { return task.Well(t) }

// racer returns an agent of a race with its op held. An agent that got the name later is another
// one: the racer does not exist any more.
func (m *Manager) racer(ctx context.Context, name, race string) (*Agent, error) {
	a, err := m.find(ctx, name)
	if err != nil {
		return nil, err
	}
	if race == "" || a.Copy().Race != race {
		a.op.Unlock()
		return nil, api.Errorf(api.CodeAgentNotFound, "agent %s of race %s was removed; the agent of that name is another one", name, race).
			WithHint("polisctl races show %s", race)
	}
	return a, nil
}

// CheckIn runs a command for sh in the sandbox of an agent of a race, at the top of its worktree, and
// returns its exit status and the end of its output. It starts a stopped agent for that. If ctx ends,
// the command is killed.
func (m *Manager) CheckIn(ctx context.Context, name, race, command string) (code int, output string, err error) {
	a, err := m.racer(ctx, name, race)
	if err != nil {
		return 0, "", err
	}
	err = m.ensureUp(ctx, a, false)
	session := a.Kept.Session
	a.op.Unlock()
	if err != nil {
		return 0, "", err
	}
	sh := m.Shims.Dial(name)
	defer sh.Close()
	res, err := sh.Run(ctx, wire.ExecRequest{Command: []string{"sh", "-ec", command}, Env: []string{"POLIS_RACE=" + race}, Session: session})
	output = strings.ToValidUTF8(res.Stdout+res.Stderr, "?")
	return res.Code, output[max(0, len(output)-checkTail):], err
}

// DiffStat returns what git diff --stat prints for two commits of an agent's.
func (m *Manager) DiffStat(ctx context.Context, name, base, head string) (string, error) {
	a, err := m.lookup(name)
	if err != nil || base == "" || head == "" {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, measureTime)
	defer cancel()
	var b strings.Builder
	err = a.WS.Repo.DiffCommits(ctx, a, base, head, api.DiffRequest{Stat: true}, &limited{&b, maxDiffStat})
	return b.String(), err
}

// MergeRacer merges the branch of an agent of a race and waits for the outcome.
func (m *Manager) MergeRacer(ctx context.Context, name, race string) (commit string, err error) {
	a, err := m.racer(ctx, name, race)
	if err != nil {
		return "", err
	}
	// The removal of the agent takes its entry out of the queue, so the name stands for this agent.
	wait, err := a.WS.Queue.Submit(m.mergeEntry(name, api.MergeRequest{}))
	merged := a.Copy().MergeCommitSHA
	a.op.Unlock()
	if err != nil {
		return "", err
	}
	out, err := wait(ctx)
	if api.CodeOf(err) == api.CodeNothingToMerge && merged != "" {
		return merged, nil // an earlier polisd merged it, and died before the race had it
	}
	return out.MergeCommitSHA, err
}

// KeepRacer makes the winner of a race an ordinary agent: it takes leases from its next start on, and
// its branch follows the target again. One that is merged becomes ephemeral. One that is gone is no
// error.
func (m *Manager) KeepRacer(ctx context.Context, name, race string, merged bool) error {
	a, err := m.racer(ctx, name, race)
	switch {
	case err != nil && api.CodeOf(err) == api.CodeAgentNotFound:
		return nil
	case err != nil:
		return err
	}
	defer a.op.Unlock()
	m.mu.Lock()
	a.Kept.Race, a.Kept.Base, a.Kept.Ephemeral = "", "", merged
	m.mu.Unlock()
	return m.save(a.WS)
}

// DropRacer saves the work of an agent of a race in the trash and removes the agent. An agent that
// does not exist is no error.
func (m *Manager) DropRacer(ctx context.Context, name, race string) (trash string, err error) {
	a, err := m.racer(ctx, name, race)
	if err != nil && api.CodeOf(err) == api.CodeAgentNotFound {
		return m.trashOf(name, race), nil
	}
	if err != nil {
		return "", err
	}
	defer a.op.Unlock()
	if err := permit(name, a.status(m), verbForce); err != nil {
		return "", err
	}
	r, err := m.discard(ctx, a, false)
	return r.Trash, err
}

// trashOf returns where the work of a removed agent of a race is.
func (m *Manager) trashOf(name, race string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.workspaces {
		for i := len(w.Removed) - 1; i >= 0; i-- {
			if a := w.Removed[i].Agent; a.Name == name && a.Race == race {
				return w.Removed[i].Trash
			}
		}
	}
	return ""
}
