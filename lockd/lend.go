package lockd

import (
	"errors"
	"time"

	"polis/lockd/table"
)

// Delegations, at the server: in a directory in which no other agent has an interest, the agent
// grants leases itself. See delegation for the client's side.

// errOverdue ends the connection of a shim that does not return a directory. A live shim
// reconnects and claims its leases; a stopped one becomes stale like any other without contact.
var errOverdue = errors.New("the shim does not return a delegated directory")

// recallBound is how long Break waits for a directory to be returned.
const recallBound = 1500 * time.Millisecond

func wireDelegation(d table.Delegation) wireKey {
	k := wirePath(d.Dir)
	k.Token, k.Last = d.Token, d.Last
	return k
}

func (k *wireKey) delegation() table.Delegation {
	return table.Delegation{Dir: k.path(), Token: k.Token, Last: k.Last}
}

// delegate adds to a grant the directories in which the agent grants leases itself from now on.
// Called with s.mu held.
func (c *conn) delegate(t *table.Table, r table.Request) []wireKey {
	if !c.server.Delegate || r.Explicit || c.peer < lendVersion {
		return nil
	}
	ds := t.Delegate(c.agent, c.session, r.Keys)
	c.server.stats.delegated.Add(uint64(len(ds)))
	out := make([]wireKey, 0, len(ds))
	for _, d := range ds {
		out = append(out, wireDelegation(d))
	}
	return out
}

// report enters what the agent granted itself.
func (c *conn) report(m *message) error {
	grants := make([]table.Grant, len(m.Keys))
	for i := range m.Keys {
		w := &m.Keys[i]
		k, err := w.key()
		if err != nil {
			return err
		}
		grants[i] = table.Grant{Claim: table.Claim{Key: k, Token: w.Token, Since: time.UnixMilli(w.Since)}, Op: w.Op, Pid: w.Pid}
	}
	var err error
	return errors.Join(c.do(func(t *table.Table) {
		var refused []string
		if refused, err = t.Report(c.agent, c.session, grants); len(refused) == 0 {
			return
		}
		c.server.Log.Error("leases refused that a shim granted itself", "op", "report", "agent", c.agent, "leases", len(refused))
		keys := make([]wireKey, len(refused))
		for i, p := range refused {
			keys[i] = wirePath(p)
		}
		chunks(keys, func(part []wireKey) {
			c.link.put(&message{Type: msgLost, Keys: part, Text: string(table.WhyEvicted)})
		})
	}), err)
}

func (c *conn) giveBack(m *message) error {
	ds := make([]table.Delegation, len(m.Lent))
	for i := range m.Lent {
		ds[i] = m.Lent[i].delegation()
	}
	var err error
	return errors.Join(c.do(func(t *table.Table) { err = t.Return(c.agent, c.session, ds) }), err)
}

// fetch recalls a delegated directory, so that its holder reports its leases on path. It waits
// for recallBound at most: of a holder that does not answer, only the leases in the table are
// known.
func (s *Server) fetch(workspace, path string) {
	limit := time.NewTimer(recallBound)
	defer limit.Stop()
	for {
		s.mu.Lock()
		pending := !s.closed && s.table.Recall(workspace, path)
		s.settle()
		if !pending {
			s.mu.Unlock()
			return
		}
		if s.back == nil {
			s.back = make(chan struct{})
		}
		back := s.back
		s.mu.Unlock()
		select {
		case <-back:
		case <-limit.C:
			return
		}
	}
}

// moved wakes those that wait for a change. Called with s.mu held.
func (s *Server) moved() {
	if s.back != nil {
		close(s.back)
		s.back = nil
	}
}
