package daemon

import (
	"context"

	"polis/daemon/api"
	"polis/daemon/git/leases"
	"polis/lockd"
)

// Locks lists the leases.
func (b *backend) Locks(workspace string) []api.Lock { return b.apiLocks(workspace) }

func (d *Daemon) apiLocks(workspace string) []api.Lock {
	out := []api.Lock{}
	for _, l := range d.locks.List(lockd.Filter{Workspace: workspace}) {
		out = append(out, leases.Lock(l))
	}
	return out
}

// lockRequest checks that the workspace and the agent of a request exist, and translates it.
func (b *backend) lockRequest(by string, req api.LockRequest) (lockd.LockRequest, error) {
	ws, err := b.Workspace(req.Workspace)
	if err != nil {
		return lockd.LockRequest{}, err
	}
	if req.Agent != "" {
		if _, err := b.Policy(req.Agent); err != nil {
			return lockd.LockRequest{}, err
		}
	}
	return leases.Request(ws.Name, by, req)
}

// Lock takes an explicit lock for the caller, or in an agent's name.
func (b *backend) Lock(ctx context.Context, by string, req api.LockRequest) (api.Lock, error) {
	if err := leases.Lockable(req.Path); err != nil {
		return api.Lock{}, err
	}
	lr, err := b.lockRequest(by, req)
	if err != nil {
		return api.Lock{}, err
	}
	ls, err := b.locks.Lock(ctx, lr)
	if err != nil {
		return api.Lock{}, leases.Error(err)
	}
	if len(ls) == 0 {
		return api.Lock{}, api.Errorf(api.CodeInternal, "lock %s: no lease was given", req.Path)
	}
	return leases.Lock(ls[0]), nil
}

// Unlock releases a lock, or breaks another holder's.
func (b *backend) Unlock(_ context.Context, by string, req api.LockRequest) error {
	lr, err := b.lockRequest(by, req)
	if err != nil {
		return err
	}
	return leases.Release(b.locks, lr, by, req)
}

// leasesChanged records leases that were granted or ended.
func (d *Daemon) leasesChanged(c lockd.Changes) {
	for _, e := range leases.Receipts(c) {
		d.receipts.Put(e)
	}
}

// lockEvent publishes the events of the lock table.
func (d *Daemon) lockEvent(e lockd.Event) {
	if ev, reported := leases.Event(e); reported {
		d.hub.Publish(ev)
	}
}
