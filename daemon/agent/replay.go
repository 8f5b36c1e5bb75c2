package agent

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"

	"polis/daemon/api"
)

// maxName is the longest name of an agent, in bytes.
const maxName = 31

// maxReplayPaths bounds the paths that are listed when a replay ended with other files.
const maxReplayPaths = 20

// Replay adds an agent that is like that of a task, begins at the commit where the task began, and
// reaches nothing; it gets the task again. The caller has checked that the task has a recording.
func (m *Manager) Replay(ctx context.Context, id string, req api.ReplayRequest) (api.Replay, error) {
	a, t, err := m.taskOf(id)
	if err != nil {
		return api.Replay{}, err
	}
	k := a.Copy()
	if err := m.replayable(a, t); err != nil {
		return api.Replay{}, err
	}
	no, name := false, cmp.Or(req.Name, m.freeName(t.Agent))
	add := like(k, a.WS.Name, name)
	add.AutoMerge, add.RemoveAfter = &no, &no
	add.Egress, add.HostPorts = []string{"none"}, []uint16{}
	add.Base, add.ReplayOf, add.ReplayByOrder = t.Base, t.ID, req.ByOrder
	if _, err := m.Add(ctx, add); err != nil {
		return api.Replay{}, err
	}
	given, err := m.Run(ctx, name, api.RunRequest{Prompt: t.Prompt, Model: t.Model, Commit: t.Commit})
	if err != nil {
		uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		if _, rerr := m.Discard(uctx, name, false); rerr != nil {
			m.Log.Warn("agent of a replay not removed", "agent", name, "err", rerr)
		}
		return api.Replay{}, err
	}
	return api.Replay{Of: t.ID, Agent: name, Task: given.ID}, nil
}

// CheckReplay returns an error if a task cannot be replayed, whether it was recorded or not, and the log
// directory of its agent, which can have been removed.
func (m *Manager) CheckReplay(id string) (logs string, err error) {
	a, t, err := m.taskOf(id)
	if err != nil {
		return "", err
	}
	return a.WS.Root.Logs(t.Agent), m.replayable(a, t)
}

// replayable returns an error if a task cannot be given again as it was.
func (m *Manager) replayable(a *Agent, t api.Task) error {
	k := a.Copy()
	if err := a.WS.NeedsGit("a replay works on a branch of its own"); err != nil {
		return err
	}
	refuse := func(why string) *api.Error {
		return api.Errorf(api.CodeBadState, "task %s cannot be replayed: %s", t.ID, why)
	}
	c := m.config()
	switch {
	case t.State != api.TaskEnded:
		return refuse("it has not ended").WithHint("polisctl tasks show %s", t.ID)
	case t.Via != "":
		return refuse("it is text that was typed into a program")
	case t.Continue:
		return refuse("it continued with what its program had kept of an earlier task, which a new agent has not")
	case t.Base == "":
		return refuse("the commit where it began is not known")
	case k.ReadOnly || k.RulesLost:
		return refuse("its agent is read-only, or its rules are lost")
	case len(c.GatewayOf(k.Role).Models) == 0:
		return refuse("its role has no model service any more (gateway.models)")
	}
	return nil
}

// freeName is a name for an agent that replays a task of another one.
func (m *Manager) freeName(of string) string {
	for n := 1; ; n++ {
		end := fmt.Sprintf("-replay%d", n)
		name := strings.TrimRight(of[:min(len(of), maxName-len(end))], "-") + end
		if _, err := m.lookup(name); err != nil {
			return name
		}
	}
}

// Replayed returns a replay by its agent. With wait it returns when its task has ended, or ctx ends.
func (m *Manager) Replayed(ctx context.Context, name string, wait bool) (api.Replay, error) {
	a, err := m.lookup(name)
	if err != nil {
		return api.Replay{}, err
	}
	k := a.Copy()
	if k.Replay == nil {
		return api.Replay{}, api.Errorf(api.CodeBadState, "agent %s replays no task", name)
	}
	of, recorded, err := m.taskOf(k.Replay.Task)
	if err != nil {
		return api.Replay{}, err
	}
	r := api.Replay{Of: recorded.ID, Agent: name}
	if r.Task, err = m.GivenTask(name, recorded.Prompt); err != nil || r.Task == "" {
		return r, err
	}
	t, err := m.Task(ctx, r.Task, wait)
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), measureTime)
	defer cancel()
	r.Result, r.Ended = t.Result, t.Final
	m.countReplay(ctx, name, &r)
	if t.Final {
		m.compareTrees(ctx, of, recorded, a, t, &r)
	}
	return r, nil
}

// countReplay asks the shim of a replay for its counts.
func (m *Manager) countReplay(ctx context.Context, name string, r *api.Replay) {
	sh := m.Shims.Dial(name)
	defer sh.Close()
	got, err := sh.Replayed(ctx)
	if err != nil {
		r.Unknown = "the agent's shim is gone, or has no recording: " + api.AsError(err).Message
		return
	}
	r.ReplayCounts, r.Unknown = got.ReplayCounts, got.Error
}

// compareTrees compares what a task and its replay committed.
func (m *Manager) compareTrees(ctx context.Context, of *Agent, recorded api.Task, a *Agent, t api.Task, r *api.Replay) {
	if r.Tree = api.TreeUnknown; recorded.Head == "" || t.Head == "" {
		return
	}
	was, err := of.WS.Repo.Tree(ctx, of, recorded.Head)
	if err != nil { // of a removed agent: its commits can be in the target
		was, err = a.WS.Repo.Tree(ctx, a, recorded.Head)
	}
	now, nerr := a.WS.Repo.Tree(ctx, a, t.Head)
	switch {
	case err != nil || nerr != nil:
		return
	case was == now:
		r.Tree = api.TreeSame
		return
	}
	r.Tree = api.TreeDifferent
	var b bytes.Buffer
	if err := a.WS.Repo.DiffCommits(ctx, a, recorded.Head, t.Head, api.DiffRequest{NameOnly: true}, &limited{&b, maxDiffStat}); err != nil {
		m.Log.Debug("paths that differ after a replay not known", "agent", a.Name(), "err", err)
		return
	}
	paths := strings.FieldsFunc(b.String(), func(c rune) bool { return c == '\n' })
	r.Paths = paths[:min(len(paths), maxReplayPaths)]
}
