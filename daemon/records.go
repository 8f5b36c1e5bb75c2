package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/history/policyrecord"
	"polis/daemon/history/receipt"
	"polis/daemon/shim/dial"
	"polis/daemon/store/layout"
	"polis/fusefs/policy"
)

// collector stores what the shim of an agent records.
func (d *Daemon) collector(name string) *receipt.Collector {
	spec, _ := d.shims.Spec(name)
	return &receipt.Collector{Agent: name, Store: func() *receipt.Store { return d.receiptStores()[d.workspacesOfAgents()[name]] }, Log: d.Log,
		Learn: func(b wire.Opens) error { return d.learn(name, b) }, LearnOnly: spec.Audit == wire.AuditPolicy}
}

// followOpens stores what an agent opens, if that is recorded, until ctx ends.
func (d *Daemon) followOpens(ctx context.Context, name string) {
	if spec, ok := d.shims.Spec(name); !ok || spec.Audit == "" {
		return
	}
	sh := dial.New(d.run.AgentSocket(name))
	defer sh.Close()
	c := d.collector(name)
	c.Fetch = sh.Opens
	c.Run(ctx)
}

// leftOpens stores what a shim that has ended left of its opens.
func (d *Daemon) leftOpens(ctx context.Context, name, dir string) {
	c := d.collector(name)
	whole := false
	c.Learn = func(b wire.Opens) error {
		err := d.learn(name, b)
		whole = err == nil && !b.Unfinished
		return err
	}
	if err := c.Left(ctx, layout.ShimOpens(dir)); err != nil {
		d.Log.Error("opens of an agent are missing in its receipts", "agent", name, "err", err)
		d.receipts.Missed(name)
	}
	if b := d.book(d.workspacesOfAgents()[name]); b != nil {
		if err := b.End(name, whole); err != nil {
			d.Log.Warn("end of a record of what an agent uses not stored", "agent", name, "err", err)
		}
	}
}

// book returns what the agents of a workspace used; nil if the workspace is gone.
func (d *Daemon) book(workspace string) *policyrecord.Book {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.workspaces[workspace]; w != nil {
		return w.records
	}
	return nil
}

// learn stores what an agent in record mode used.
func (d *Daemon) learn(name string, b wire.Opens) error {
	r, ok := d.agents.RecordOf(name)
	if !ok || !r.Recording || b.Life == 0 {
		return nil
	}
	book := d.book(r.Workspace)
	if book == nil {
		return fmt.Errorf("workspace %s is gone", r.Workspace)
	}
	return book.Add(name, policyrecord.Header{Created: r.CreatedAt, Life: b.Life, Began: time.Now().UTC(), Role: r.Role, Policy: r.Rules(), Temp: d.live().Locks.TempNames,
		Egress: r.Egress, Unseen: d.agents.SharesNetwork()}, b.List, b.Dropped)
}

func (d *Daemon) closeRecords() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, w := range d.workspaces {
		if err := w.records.Close(); err != nil {
			d.Log.Error("records of what agents use not closed", "workspace", name, "err", err)
		}
	}
}

// recordOf returns what an agent used. Of an agent that was removed the workspace must be named if there
// are several.
func (b *backend) recordOf(ctx context.Context, req api.PolicyRequest) (policyrecord.Record, string, error) {
	r, there := b.agents.RecordOf(req.Agent)
	if !there {
		r.Workspace = req.Workspace
	}
	ws, err := b.Workspace(r.Workspace)
	if err != nil {
		return policyrecord.Record{}, "", err
	}
	if r.Up && r.Recording {
		b.settleOpens(ctx, req.Agent)
	}
	book := b.book(ws.Name)
	if book == nil {
		return policyrecord.Record{}, "", api.Errorf(api.CodeWorkspaceNotFound, "workspace %s is gone", ws.Name)
	}
	rec, err := book.Read(req.Agent, policyrecord.Select{Created: r.CreatedAt, Run: req.Run, Up: r.Up && r.Recording})
	if errors.Is(err, policyrecord.ErrNothing) {
		return rec, ws.Name, api.Errorf(api.CodeNotFound, "nothing is recorded of agent %s in workspace %s", req.Agent, ws.Name).
			WithHint(`set policy = "record" in [agents.%[1]s] of polisd.toml, reload polisd, then polisctl agents stop %[1]s and polisctl agents start %[1]s`, req.Agent)
	}
	return rec, ws.Name, err
}

// settleTime bounds the wait for what the shim has recorded and polisd has not stored yet.
const settleTime = 3 * time.Second

func (b *backend) settleOpens(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	sh := dial.New(b.run.AgentSocket(name))
	defer sh.Close()
	if err := sh.OpensStored(ctx); err != nil {
		b.Daemon.Log.Debug("last uses of an agent not waited for", "agent", name, "err", err)
	}
}

// LearnPolicy returns a role that allows what an agent used.
func (b *backend) LearnPolicy(ctx context.Context, req api.PolicyRequest) (api.LearnedPolicy, error) {
	rec, ws, err := b.recordOf(ctx, req)
	if err != nil {
		return api.LearnedPolicy{}, err
	}
	return policyrecord.Learn(rec, api.LearnedPolicy{Agent: req.Agent, Workspace: ws, Role: req.Role})
}

// CheckPolicy returns what a role would have refused of what an agent used.
func (b *backend) CheckPolicy(ctx context.Context, req api.PolicyRequest) (api.PolicyCheck, error) {
	role, err := b.Role(req.Role)
	if err != nil {
		return api.PolicyCheck{}, err
	}
	rec, ws, err := b.recordOf(ctx, req)
	if err != nil {
		return api.PolicyCheck{}, err
	}
	c := b.live()
	r, _ := b.agents.RecordOf(req.Agent)
	reach, err := c.Reach(req.Role, r.Type, config.Own{})
	if err != nil {
		return api.PolicyCheck{}, err
	}
	p := role.Policy
	return policyrecord.Check(rec, policy.Rules{Read: p.Read, Write: p.Write, Ask: p.Ask, Deny: p.Deny, Hide: p.Hide, Temp: c.Locks.TempNames}, reach.Policy.Entries(),
		api.PolicyCheck{Role: req.Role, Agent: req.Agent, Workspace: ws})
}
