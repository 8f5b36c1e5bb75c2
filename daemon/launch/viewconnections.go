package launch

import (
	"context"
	"errors"
	"time"

	"polis/daemon/host/launcher"
	"polis/fusefs/fusectl"
)

// viewConns are the FUSE connections of the views of one agent. They are the agent's own however long they are
// held: another connection can get the number of one that ended, and is not mistaken for it.
type viewConns []*fusectl.Connection

// connections opens the connections of an agent's views that are mounted now.
func (s *Shims) connections(name string) (viewConns, error) {
	mounts, err := s.viewMounts(name)
	if err != nil {
		return nil, err
	}
	var all viewConns
	for _, m := range mounts {
		if all.has(uint32(m.Minor)) {
			continue // mounted twice
		}
		c, err := fusectl.OpenMounted(m)
		if err != nil {
			return nil, errors.Join(err, all.close())
		}
		all = append(all, c)
	}
	return all, nil
}

func (v viewConns) has(id uint32) bool {
	for _, c := range v {
		if c.ID() == id {
			return true
		}
	}
	return false
}

// waiting returns the number of requests without an answer.
func (v viewConns) waiting() (n int, err error) {
	for _, c := range v {
		k, err := c.Waiting()
		if err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}

func (v viewConns) abort() (err error) {
	for _, c := range v {
		err = errors.Join(err, c.Abort())
	}
	return err
}

func (v viewConns) close() (err error) {
	for _, c := range v {
		err = errors.Join(err, c.Close())
	}
	return err
}

const (
	// stuckAfter is how long a shim that was killed may take to end before its connections are aborted.
	stuckAfter = 2 * time.Second
	stuckTick  = 100 * time.Millisecond
)

// endStuck aborts the connections of an agent's views if its shim is killed and does not end: then a thread of it
// waits for an answer that the shim itself would have to give, or for a lock that a caller of the view holds. The
// function that it returns ends the watch.
func (s *Shims) endStuck(ctx context.Context, name string) (stop func()) {
	proc, err := s.launcher.Process(ctx, name, s.Run.Agent(name))
	if errors.Is(err, launcher.ErrNoProcess) {
		return func() {}
	}
	held, cerr := s.connections(name) // a moment later some may be mounted nowhere
	if err = errors.Join(err, cerr); err != nil {
		s.Log.Warn("shim is not watched while it ends", "agent", name, "err", err)
		return func() {}
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(stuckTick)
		defer tick.Stop()
		var since time.Time
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			dying, err := proc.Dying()
			switch {
			case err != nil || !dying:
				since = time.Time{}
			case since.IsZero():
				since = time.Now()
			case time.Since(since) > stuckAfter:
				s.Log.Error("shim was killed and cannot end; its views' connections are aborted", "agent", name, "after", time.Since(since))
				if err := s.abort(name, held); err != nil {
					s.Log.Error("connections not aborted", "agent", name, "err", err)
				}
				since = time.Time{}
			}
		}
	}()
	return func() {
		close(over)
		<-done
		if err := held.close(); err != nil {
			s.Log.Warn("connections not closed", "agent", name, "err", err)
		}
	}
}

// abort ends the connections that are held and those that are mounted now.
func (s *Shims) abort(name string, held viewConns) error {
	now, err := s.connections(name)
	return errors.Join(err, held.abort(), now.abort(), now.close())
}
