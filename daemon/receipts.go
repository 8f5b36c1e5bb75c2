package daemon

import (
	"context"
	"io"
	"time"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/history/policyrecord"
	"polis/daemon/history/provenance"
	"polis/daemon/history/receipt"
	"polis/daemon/store/layout"
)

// openReceipts begins to record events. The stores come with the workspaces.
func (d *Daemon) openReceipts(ctx context.Context) {
	d.receipts = &receipt.Recorder{Workspaces: d.workspacesOfAgents, Stores: d.receiptStores, Faulty: d.receiptsFault, Log: d.Log, Now: time.Now, Began: time.Now()}
	d.hub.Tap = d.receipts.Put
	d.receipts.Open(ctx)
}

// newReceipts makes the receipts of a workspace, and beside them the records of what its agents use.
// Nothing is read yet.
func (d *Daemon) newReceipts(name string) (*receipt.Store, *policyrecord.Book) {
	s := &receipt.Store{Dir: layout.Receipts(d.Config.WorkspacesDir, name), Workspace: name, Log: d.Log, Now: time.Now, Began: d.receipts.Began,
		Limits: func() receipt.Limits {
			c := d.live().Receipts
			return receipt.Limits{MaxBytes: int64(c.MaxMB) << 20, AgentBytes: int64(c.AgentMB) << 20, Keep: time.Duration(c.Keep)}
		},
		Lives: func(agent string) bool {
			of, err := d.agents.WorkspaceOf(agent)
			return err == nil && of == name
		},
		Cut: func(log string, bytes int64) { d.hub.Publish(receipt.CutEvent(name, log, bytes)) }}
	return s, &policyrecord.Book{Dir: s.AgentDir, Log: d.Log}
}

func (d *Daemon) workspacesOfAgents() map[string]string {
	if d.agents == nil {
		return nil
	}
	return d.agents.Homes()
}

func (d *Daemon) receiptStores() map[string]*receipt.Store {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]*receipt.Store{}
	for name, w := range d.workspaces {
		out[name] = w.receipts
	}
	return out
}

func (d *Daemon) receiptsFault(workspace string, err error) {
	d.hub.Publish(receipt.FaultEvent(workspace, err))
}

// closeReceipts writes what is left, and closes the stores.
func (d *Daemon) closeReceipts() {
	if d.receipts == nil {
		return
	}
	d.receipts.Close()
	d.closeRecords()
	for name, s := range d.receiptStores() {
		if err := s.Close(); err != nil { // a full disk: the next start finds the end missing
			d.Log.Error("receipts not closed", "workspace", name, "err", err)
		}
	}
}

// Recordable returns an error if receipts cannot be written and what must be recorded is refused then.
func (d *Daemon) Recordable() error {
	return receipt.Refusal(d.receipts.Fault(), d.live().Receipts.AuditOnFull == config.AuditDeny)
}

// Recorded returns when the receipts of what was done are durable, or after ctx.
func (d *Daemon) Recorded(ctx context.Context) { d.receipts.Settle(ctx) }

// receiptsOf returns the receipts of a workspace; "" is the only one.
func (b *backend) receiptsOf(workspace string) (*receipt.Store, error) {
	ws, err := b.Workspace(workspace)
	if err != nil {
		return nil, err
	}
	s := b.receiptStores()[ws.Name]
	if s == nil {
		return nil, api.Errorf(api.CodeWorkspaceNotFound, "workspace %s is gone", ws.Name)
	}
	return s, nil
}

// Receipts returns the last receipts that match.
func (b *backend) Receipts(ctx context.Context, req api.ReceiptsRequest) (api.Receipts, error) {
	s, err := b.receiptsOf(req.Workspace)
	if err != nil {
		return api.Receipts{}, err
	}
	b.Recorded(ctx)
	return s.Read(ctx, req)
}

// refused returns what an agent was refused since then, as its receipts have it.
func (d *Daemon) refused(ctx context.Context, workspace, agent string, since time.Time) ([]api.WhyEntry, uint64, error) {
	s := d.receiptStores()[workspace]
	if s == nil {
		return nil, 0, nil
	}
	d.Recorded(ctx)
	why, broken, err := s.Refusals(ctx, agent, since)
	if broken == nil {
		return why, 0, err
	}
	return why, max(broken.Seq, 1), err
}

// VerifyReceipts compares all receipts with their hashes.
func (b *backend) VerifyReceipts(ctx context.Context, workspace, head string) (api.ReceiptsCheck, error) {
	s, err := b.receiptsOf(workspace)
	if err != nil {
		return api.ReceiptsCheck{}, err
	}
	b.Recorded(ctx)
	v, err := s.Verify(ctx, head)
	v.Fault = receipt.FaultText(b.receipts.Fault())
	return v, err
}

// Provenance writes in-toto statements about the merges of a workspace.
func (b *backend) Provenance(ctx context.Context, workspace string, entry uint64, to io.Writer) error {
	s, err := b.receiptsOf(workspace)
	if err != nil {
		return err
	}
	b.Recorded(ctx)
	for _, w := range b.gitWorkspaces(s.Workspace) {
		p := &provenance.Source{Workspace: s.Workspace, Receipts: s, Commits: w.git.Bare()}
		return p.Export(ctx, entry, to)
	}
	ws, err := b.Workspace(s.Workspace)
	if err == nil {
		err = ws.NeedsGit("it has no merges")
	}
	return err
}

// ExportReceipts writes all receipts as lines of JSON.
func (b *backend) ExportReceipts(ctx context.Context, workspace string, to io.Writer) error {
	s, err := b.receiptsOf(workspace)
	if err != nil {
		return err
	}
	b.Recorded(ctx)
	return s.Export(ctx, to)
}
