package daemon

import (
	"cmp"
	"context"
	"sort"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/merge"
	"polis/daemon/merge/queue"
)

// lockPatience is how long a merge waits for the lease of the target branch.
const lockPatience = time.Minute

// mergeHost implements queue.Host for a workspace.
type mergeHost struct{ w *workspace }

func (h mergeHost) Prepare(ctx context.Context, e api.QueueEntry) (queue.Job, error) {
	if err := cmp.Or(h.w.integrity.Damage(), h.w.d.Recordable()); err != nil {
		return queue.Job{}, err
	}
	b, rules, err := h.w.gate(e.Agent)
	if err != nil {
		return queue.Job{}, err
	}
	req := merge.Request{Agent: e.Agent, Message: e.Message, Rules: rules, AcceptProtected: e.AcceptProtected, Head: e.Head,
		Trailer: h.w.d.trailer(e.Agent), Signed: e.Signed, MustSign: h.w.mustSign()}
	if err := h.w.source(ctx, b, &req); err != nil {
		return queue.Job{}, err
	}
	h.w.d.beforeMerge(ctx, h.w, e)
	return queue.Job{Request: req, Known: b.Merged}, nil
}

// BatchMerger reads the configuration again for every batch.
func (h mergeHost) BatchMerger() (*queue.BatchMerger, int) {
	c := h.w.d.live()
	rules := c.MergeRules(h.w.agents.Name)
	l := &queue.BatchMerger{Merges: recordedMerges{h.w.merger, h.w.d}, Patience: lockPatience}
	if *rules.Check != "" || *rules.Hooks {
		l.Check, l.Command = h.w.checker(rules), *rules.Check
	}
	return l, *rules.Batch
}

// mergeIdentity returns what reads who merges and reverts of a workspace are by, as it is configured now.
func (d *Daemon) mergeIdentity(workspace string) func() git.Person {
	return func() git.Person {
		c := d.live()
		return git.Person(c.MergeRules(workspace).Identity)
	}
}

// recordedMerges changes the target only if the receipt of the merge can be written, or need not be: a check
// can have run for long since Prepare.
type recordedMerges struct {
	*merge.Merger
	d *Daemon
}

// Advance moves the target to a merge.
func (m recordedMerges) Advance(ctx context.Context, s merge.Stack, commit string) error {
	if err := m.d.Recordable(); err != nil {
		return err
	}
	return m.Merger.Advance(ctx, s, commit)
}

func (h mergeHost) Landed(ctx context.Context, o queue.Outcome) (api.QueueOutcome, error) {
	h.w.signals.Landed(ctx, queue.MergeResult{ID: o.Job.Entry.ID, Agent: o.Job.Entry.Agent, Branch: o.Job.Request.Branch, Commit: o.Result.Commit, Paths: o.Result.Paths, Log: o.Log, Check: o.Check, Err: o.Err})
	out, err := h.w.d.agents.Landed(ctx, o.Job.Entry, o.Report(), o.Err)
	if err == nil {
		h.w.signals.Announce()
	}
	return out, err
}

func (h mergeHost) Save() error {
	name := h.w.agents.Name
	h.w.d.hub.Publish(api.Event{Type: api.EventQueue, Message: "the merge queue of workspace " + name + " changed", Data: map[string]any{"workspace": name}})
	defer h.w.d.patrol.trigger() // an entry that has ended can have been the last work of its agent
	h.w.flow.Sync(h.w.queue.Entries(), h.w.agents.Target, time.Now())
	err := h.w.d.agents.SaveWorkspace(name)
	if err == nil {
		h.w.signals.Announce()
	}
	return err
}

// closeQueues ends the merge queues. The next daemon repeats the checks that this one did not
// finish.
func (d *Daemon) closeQueues() {
	for _, w := range d.sorted("") {
		w.queue.Close()
	}
}

// sorted returns the workspaces in the order of their names, or the workspace called name.
func (d *Daemon) sorted(name string) []*workspace {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ws []*workspace
	for n, w := range d.workspaces {
		if w.agents != nil && (name == "" || n == name) {
			ws = append(ws, w)
		}
	}
	sort.Slice(ws, func(i, j int) bool { return ws[i].agents.Name < ws[j].agents.Name })
	return ws
}

// Queues returns the merge queues.
func (b *backend) Queues(workspace string) ([]api.Queue, error) {
	if workspace != "" {
		ws, err := b.Workspace(workspace)
		if err != nil {
			return nil, err
		}
		workspace = ws.Name
	}
	c := b.live()
	out := []api.Queue{}
	for _, w := range b.sorted(workspace) {
		if !w.agents.Git {
			continue
		}
		q := api.Queue{Workspace: w.agents.Name, Target: w.agents.Target, Check: *c.MergeRules(w.agents.Name).Check, Entries: w.queue.Entries(), Recent: w.queue.Recent(), Signals: w.flow.Signals()}
		if q.Entries == nil {
			q.Entries = []api.QueueEntry{}
		}
		if q.Signals == nil {
			q.Signals = []api.MergeSignal{}
		}
		if q.Recent == nil {
			q.Recent = []api.QueueOutcome{}
		}
		out = append(out, q)
	}
	return out, nil
}

// queueOf returns the merge queue of an agent's workspace.
func (b *backend) queueOf(ctx context.Context, name string) (*queue.Worker, error) {
	a, err := b.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, w := range b.sorted(a.Workspace) {
		return w.queue, w.agents.NeedsGit("it has no merge queue")
	}
	return nil, api.Errorf(api.CodeWorkspaceNotFound, "workspace %s is gone", a.Workspace)
}

// Dequeue removes an agent from the merge queue.
func (b *backend) Dequeue(ctx context.Context, name string) error {
	q, err := b.queueOf(ctx, name)
	if err != nil {
		return err
	}
	was, err := q.Remove(name)
	if err == nil && !was {
		return api.Errorf(api.CodeNotFound, "agent %s is not in the merge queue", name).WithHint("polisctl queue shows who is")
	}
	if err == nil {
		b.Dequeued(name)
	}
	return err
}

// Prioritize sets the priority of an agent's entry.
func (b *backend) Prioritize(ctx context.Context, name string, priority int) error {
	q, err := b.queueOf(ctx, name)
	if err != nil {
		return err
	}
	return q.Prioritize(name, priority)
}
