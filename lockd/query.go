package lockd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"polis/lockd/table"
)

// Want is an explicit lock of the client's agent.
type Want struct {
	// Paths and Trees are keys as FileKey makes them.
	Paths, Trees []string
	// Mode is Write unless set.
	Mode   Mode
	Reason string
	// For ends the lock after this time; 0 means it stays until Unlock, a break, or the end of
	// the agent.
	For time.Duration
	// Wait bounds the wait for other holders; 0 refuses at once.
	Wait time.Duration
	// Soft leaves a lock that the agent has already unchanged.
	Soft bool
	Op   string
}

// Lock takes explicit locks in the agent's name, all or nothing: the agent's
// own writes pass them, others' do not, and they outlive restarts of the
// server. It returns a *ConflictError if another holder has a path for longer
// than Wait, ErrUnavailable, ErrInvalid, ErrLimit or the error of ctx.
func (c *Client) Lock(ctx context.Context, w Want) error {
	m := &message{Type: msgLock, Op: w.Op, Reason: w.Reason, For: w.For.Milliseconds(), Soft: w.Soft}
	for _, set := range []struct {
		paths []string
		tree  bool
	}{{w.Paths, false}, {w.Trees, true}} {
		for _, p := range set.paths {
			if err := errors.Join(table.CheckPath(p), checkKept(p)); err != nil {
				return err
			}
			k := wirePath(p)
			k.Tree, k.Read, k.Wait = set.tree, w.Mode == Read, millis(w.Wait)
			m.Keys = append(m.Keys, k)
		}
	}
	var undo *message
	if len(m.Keys) == 1 {
		undo = &message{Type: msgUnlock, Keys: m.Keys}
	}
	_, err := c.roundTrip(ctx, m, undo, w.Wait+c.Bound)
	return err
}

// Unlock releases the agent's explicit lock on exactly this path, or returns ErrNotHeld.
func (c *Client) Unlock(ctx context.Context, path string) error {
	if err := table.CheckPath(path); err != nil {
		return err
	}
	_, err := c.roundTrip(ctx, &message{Type: msgUnlock, Keys: []wireKey{wirePath(path)}}, nil, c.Bound)
	return err
}

// Own lists the agent's leases of both kinds with their waiters, at most some hundreds, those
// with waiters first; total is the number of all.
func (c *Client) Own(ctx context.Context) (leases []Lease, total int, err error) {
	cl, err := c.roundTrip(ctx, &message{Type: msgOwn}, nil, c.Bound)
	if err != nil {
		return nil, 0, err
	}
	return cl.leases, cl.total, nil
}

// Holders queries the server who holds path: the leases on it and on trees that contain it, this
// agent's included. ErrUnavailable if there is no answer within Bound.
func (c *Client) Holders(ctx context.Context, path string) ([]Lease, error) {
	if err := table.CheckPath(path); err != nil {
		return nil, err
	}
	cl, err := c.roundTrip(ctx, &message{Type: msgQuery, Keys: []wireKey{wirePath(path)}}, nil, c.Bound)
	if err != nil {
		return nil, err
	}
	return cl.leases, nil
}

// roundTrip sends one request and waits for its answer, for at most limit. If the answer comes
// after that, undo is sent.
func (c *Client) roundTrip(ctx context.Context, m, undo *message, limit time.Duration) (*call, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrUnavailable)
	defer cancel()
	c.mu.Lock()
	ready := c.ready
	c.mu.Unlock()
	select {
	case <-ready:
	case <-c.stopped:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c.mu.Lock()
	if c.closed || !c.open {
		c.mu.Unlock()
		return nil, fmt.Errorf("%w: no connection for %s", ErrUnavailable, m.Type)
	}
	if m.Type != msgQuery && c.peer.Load() < lockVersion {
		c.mu.Unlock()
		return nil, fmt.Errorf("%w: the running polisd is too old for %s", ErrUnavailable, m.Type)
	}
	c.lastID++
	id, cl, l := c.lastID, &call{undo: undo, done: make(chan struct{})}, c.link
	m.ID = id
	c.calls[id] = cl
	c.rouse()
	c.report() // so that the answer includes this agent's leases
	l.put(m)
	c.mu.Unlock()
	l.flush()
	select {
	case <-cl.done:
	case <-ctx.Done():
		return nil, c.leave(id, cl, l, context.Cause(ctx))
	}
	if errors.Is(cl.err, errDisconnected) {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, cl.err)
	}
	return cl, cl.err
}
