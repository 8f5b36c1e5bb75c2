package shim

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/rules/approval"
	"polis/fusefs/view"
	"polis/netbridge"
	"polis/netbridge/egress"
)

const (
	// maxHeldFlows bounds the connections that wait for an answer.
	maxHeldFlows = 128
	// approvedOpen is how long the addresses of an approved name are open for new connections. A
	// remembered answer opens them again, so that a revoked one holds no longer than this.
	approvedOpen = time.Minute
	// flowCheck is how often the sockets of connections that wait are looked up: a socket that is
	// closed withdraws its question.
	flowCheck = time.Second
)

// flow is a connection that is not made yet.
type flow struct {
	proto         string
	local, remote netip.AddrPort
}

// egressAsks asks a person about connections. The first packet of each stays in the kernel's queue
// until the answer; then the rules decide about it, with the addresses that the answer opened.
type egressAsks struct {
	s     *Shim
	queue *netbridge.Refusals

	mu     sync.Mutex
	held   map[flow]bool
	denied map[string]time.Time // names and addresses that are refused without a question until then
}

// hold is [netbridge.Refusals.Hold].
func (e *egressAsks) hold(r netbridge.Refusal) bool {
	if r.OverLimit || r.Proto != "tcp" && r.Proto != "udp" {
		return false
	}
	what, ok := e.s.egress.asked(r.Remote.Addr())
	if !ok {
		return false
	}
	f, now := flow{r.Proto, r.Local, r.Remote}, time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, until := range e.denied {
		if now.After(until) {
			delete(e.denied, name)
		}
	}
	if _, no := e.denied[what]; no {
		return false
	}
	if e.held[f] { // sent again: the first one is enough
		if err := e.queue.Release(r.Packet, true); err != nil {
			e.s.Log.Debug("repeated packet not dropped", "op", "net.ask", "err", err)
		}
		return true
	}
	if len(e.held) >= maxHeldFlows {
		return false
	}
	e.held[f] = true
	e.s.group.Go(func() error {
		e.wait(r, f, what)
		return nil
	})
	return true
}

// wait asks, opens what is approved, and gives the packet back to the rules.
func (e *egressAsks) wait(r netbridge.Refusal, f flow, what string) {
	defer func() {
		e.mu.Lock()
		delete(e.held, f)
		e.mu.Unlock()
		if err := e.queue.Release(r.Packet, false); err != nil && e.s.ctx.Err() == nil {
			e.s.Log.Warn("held packet not released", "op", "net.ask", "err", err)
		}
	}()
	pid, program := e.s.whoHas(r.Proto, r.Local, r.Remote)
	q := approval.Question{Kind: api.ApprovalEgress, Text: what, Note: fmt.Sprintf("%s connection to %s", r.Proto, r.Remote), PID: int(pid), Program: program}
	ctx, cancel := context.WithCancel(e.s.ctx)
	defer cancel()
	e.s.group.Go(func() error {
		e.watch(ctx, f)
		cancel()
		return nil
	})
	_, a, err := e.s.ask(ctx, q, usualAnswerWait)
	if err == nil && a.Verdict == api.VerdictApprove {
		if err = e.s.egress.approve(what, r.Remote.Addr()); err == nil {
			return
		}
		e.s.Log.Warn("approved address not opened", "op", "net.ask", "err", err)
	}
	reason := a.Reason
	if err != nil {
		reason = err.Error()
	} else if !a.At.IsZero() { // not one that never came
		e.mu.Lock()
		if len(e.denied) < maxHeldAnswers {
			e.denied[what] = time.Now().Add(answerHold)
		}
		e.mu.Unlock()
	}
	d := view.Denial{Time: time.Now(), Op: r.Proto + " connection", Path: r.Remote.String(), Within: r.Remote.Addr().String(), Code: view.CodeNotApproved, Errno: "ECONNREFUSED",
		Rule: "the agent's egress is " + describe(e.s.egress.egress()), Pid: pid, Program: program, Hint: "do without it, or ask for something else"}
	if r.Proto != "tcp" {
		d.Errno = "EHOSTUNREACH"
	}
	if what != r.Remote.Addr().String() {
		d.Path += " (" + what + ")"
	}
	if d.By, d.Reason = denier(a), a.Reason; reason != "" {
		d.Hint = "the answer: " + reason
	}
	e.s.denied(d)
}

// watch returns when the socket of a connection is closed, or ctx ends.
func (e *egressAsks) watch(ctx context.Context, f flow) {
	tick := time.NewTicker(flowCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, open, err := e.s.ns.Owner(ctx, f.proto, f.local, f.remote); err == nil && !open {
			return
		}
	}
}

// asked returns what a question about an address is about: a name that it was resolved for, or the
// address itself. ok is false if the policy asks about neither.
func (g *egressGuard) asked(a netip.Addr) (what string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.e.Policy.Asking() {
		return "", false
	}
	own, err := g.host(g.now())
	if err != nil || !egress.Answerable(a, g.e.Private, own) || a.IsLoopback() || a.IsUnspecified() {
		return "", false
	}
	if t := g.resolved[a]; t != nil {
		for i := len(t.names) - 1; i >= 0; i-- { // the name that was asked for last
			if g.e.Policy.Asks(t.names[i]) {
				return t.names[i], true
			}
		}
	}
	return a.String(), g.e.Policy.AsksAddr(a)
}

// approve opens an address, and the others that an approved name was resolved to, for a while.
func (g *egressGuard) approve(what string, addr netip.Addr) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.e.Policy; !p.Asks(what) && !p.Name(what) && !p.AsksAddr(addr) && !p.Addr(addr) {
		return api.Errorf(api.CodeEgressDenied, "the agent's egress has changed since the question, and does not include %s", what)
	}
	own, err := g.host(g.now())
	if err != nil {
		return err
	}
	open := map[netip.Addr]time.Duration{addr: approvedOpen}
	for a, t := range g.resolved {
		for _, name := range t.names {
			if name == what && egress.Answerable(a, g.e.Private, own) && !a.IsLoopback() && !a.IsUnspecified() {
				open[a] = approvedOpen
			}
		}
	}
	now := g.now()
	for a := range open { // one that a listed name keeps open for longer stays so
		if t := g.resolved[a]; t != nil && t.until.After(now.Add(approvedOpen)) {
			delete(open, a)
		}
	}
	if err := g.gate.Allow(nil, open); err != nil {
		return err
	}
	for a := range open {
		if t := g.resolved[a]; t != nil {
			t.until = now.Add(approvedOpen)
		}
	}
	return nil
}
