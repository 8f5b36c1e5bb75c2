package daemon

import (
	"context"
	"io"
	"time"

	"polis/daemon/api"
	"polis/daemon/git/leases"
	"polis/daemon/history/replay"
	"polis/lockd"
)

// leasesSettle is how long changes of leases take to be among the receipts.
const leasesSettle = 500 * time.Millisecond

// ledgerOf returns what replays the receipts of a workspace.
func (b *backend) ledgerOf(workspace string) (*replay.Source, error) {
	s, err := b.receiptsOf(workspace)
	if err != nil {
		return nil, err
	}
	out := &replay.Source{Workspace: s.Workspace, Receipts: s, Present: func(ctx context.Context) (replay.Present, error) { return b.presentOf(ctx, s.Workspace) }}
	for _, w := range b.gitWorkspaces(s.Workspace) {
		out.Commits, out.Snapshots = replay.Repo{Repo: w.git.Bare()}, w.timeline
	}
	return out, nil
}

// presentOf returns what there is now, when the receipts of it are durable.
func (b *backend) presentOf(ctx context.Context, workspace string) (replay.Present, error) {
	now := replay.Present{At: time.Now(), Agents: b.agents.List(ctx, workspace)}
	for _, l := range leases.OfFiles(b.locks.List(lockd.Filter{Workspace: workspace})) {
		now.Leases = append(now.Leases, replay.PresentLease{Agent: l.Holder, Since: l.Since,
			ReplayedLease: api.ReplayedLease{Path: api.EncodePath(lockd.FilePath(l.Path)), Explicit: l.Explicit, Tree: l.Tree}})
	}
	select {
	case <-time.After(leasesSettle):
	case <-ctx.Done():
		return now, context.Cause(ctx)
	}
	b.Recorded(ctx)
	return now, nil
}

// ReplayReceipts rebuilds the state of a workspace at an entry of its receipts.
func (b *backend) ReplayReceipts(ctx context.Context, workspace string, entry uint64) (api.ReceiptsReplay, error) {
	s, err := b.ledgerOf(workspace)
	if err != nil {
		return api.ReceiptsReplay{}, err
	}
	return s.Replay(ctx, entry)
}

// ReplayTree writes the files of a target, as they were at an entry of the receipts, as a tar archive.
func (b *backend) ReplayTree(ctx context.Context, workspace string, entry uint64, branch string, to io.Writer) error {
	s, err := b.ledgerOf(workspace)
	if err != nil {
		return err
	}
	return s.Archive(ctx, entry, branch, to)
}
