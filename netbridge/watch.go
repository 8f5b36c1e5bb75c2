package netbridge

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"
)

const (
	// DefaultPoll is the interval of a Watcher. sock_diag(7) can announce that a socket is
	// closed, not that one begins to listen, so it has to poll.
	DefaultPoll = 500 * time.Millisecond
	// DefaultLinger is how long a port may be without listener before it is reported as closed: a
	// development server that restarts keeps its map.
	DefaultLinger = 3 * time.Second
	// DefaultMaxPorts bounds what a Watcher reports for one agent.
	DefaultMaxPorts = 64
)

// firstEphemeral is the lowest port that the kernel picks for a socket that did not choose one
// (net.ipv4.ip_local_port_range of a new namespace).
const firstEphemeral = 32768

// A Port of an agent, for one protocol.
type Port struct {
	Proto  string // "tcp" or "udp"
	Number uint16
}

func (p Port) compare(o Port) int {
	return cmp.Or(cmp.Compare(p.Proto, o.Proto), cmp.Compare(p.Number, o.Number))
}

// Change is what changed since the last one, in order.
type Change struct {
	Added   []Port
	Removed []Port
}

// Watcher reports which ports an agent listens on.
//
// A UDP socket that waits for requests has the same state as one that waits for an answer. A
// server chooses its port, so ports that the kernel picked are not reported, nor those of
// discovery protocols (mDNS, SSDP, LLMNR), which work with a network, not through a port map.
type Watcher struct {
	NS       *NS
	Interval time.Duration // DefaultPoll if 0
	Linger   time.Duration // DefaultLinger if 0; negative for none
	MaxPorts int           // DefaultMaxPorts if 0; further ports are not reported
	// Ignore drops listeners that are not the agent's; nil drops those on
	// DNSAddr.
	Ignore func(Listener) bool
	// Idle reports that no process of the agent has run since the last call, so that no socket
	// can have begun or ceased to listen; nil means unknown. The list of sockets is then not
	// read.
	Idle func() bool
	// Rest reports, after a poll of an idle agent, that the next one may wait for Wake: another
	// process sends it when the agent runs. nil: it never waits.
	Rest func() bool
	Wake <-chan struct{}
	Now  func() time.Time // time.Now if nil
	Log  *slog.Logger     // slog.Default if nil

	lingering bool // a known port had no listener at the last poll
}

// Run polls until ctx ends or the namespace is closed and passes every change to report, in
// order, from its own goroutine. It returns nil in both cases.
func (w *Watcher) Run(ctx context.Context, report func(Change)) error {
	w.defaults()
	timer := time.NewTimer(w.Interval)
	defer timer.Stop()
	known := map[Port]time.Time{} // last seen
	failed := false
	for {
		var ls []Listener
		var err error
		// A port without listener is dropped after a while, and a failed read is repeated,
		// whether or not any process runs.
		idle := w.Idle() && !failed && !w.lingering
		if !idle {
			ls, err = w.NS.Listeners(ctx)
		}
		switch {
		case ctx.Err() != nil || errors.Is(err, ErrClosed):
			return nil
		case idle:
		case err != nil:
			if !failed { // once, not twice a second
				w.Log.Warn("cannot list listeners", "op", "net.watch", "path", w.NS.Path(), "err", err)
			}
			failed = true
		default:
			failed = false
			if ch := w.step(known, ls, w.Now()); len(ch.Added)+len(ch.Removed) > 0 {
				report(ch)
			}
		}
		var next <-chan time.Time
		if !idle || !w.Rest() {
			timer.Reset(w.Interval)
			next = timer.C
		}
		select {
		case <-next:
		case <-w.Wake:
		case <-ctx.Done():
			return nil
		}
	}
}

func (w *Watcher) defaults() {
	if w.Interval <= 0 {
		w.Interval = DefaultPoll
	}
	if w.Linger == 0 {
		w.Linger = DefaultLinger
	}
	if w.MaxPorts <= 0 {
		w.MaxPorts = DefaultMaxPorts
	}
	if w.Ignore == nil {
		w.Ignore = func(l Listener) bool { return l.Addr == DNSAddr().Addr() && l.Port == DNSAddr().Port() }
	}
	if w.Idle == nil {
		w.Idle = func() bool { return false }
	}
	if w.Rest == nil {
		w.Rest = func() bool { return false }
	}
	if w.Now == nil {
		w.Now = time.Now
	}
	if w.Log == nil {
		w.Log = slog.Default()
	}
}

// waits reports whether a listener waits for requests from outside.
func (w *Watcher) waits(l Listener) bool {
	if w.Ignore(l) {
		return false
	}
	if l.Proto != "udp" {
		return true
	}
	switch l.Port {
	case 5353, 5355, 1900:
		return false
	}
	return l.Port < firstEphemeral
}

// step compares the current listeners with known, and updates known.
func (w *Watcher) step(known map[Port]time.Time, ls []Listener, now time.Time) Change {
	var ports []Port
	for _, l := range ls {
		if w.waits(l) {
			ports = append(ports, Port{Proto: l.Proto, Number: l.Port})
		}
	}
	slices.SortFunc(ports, Port.compare)
	ports = slices.Compact(ports)
	var ch Change
	for _, p := range ports {
		if _, ok := known[p]; ok {
			known[p] = now
		}
	}
	w.lingering = false
	for p, seen := range known {
		switch {
		case now.Sub(seen) > max(w.Linger, 0):
			ch.Removed = append(ch.Removed, p)
			delete(known, p)
		case seen != now:
			w.lingering = true
		}
	}
	for _, p := range ports {
		if _, ok := known[p]; !ok && len(known) < w.MaxPorts {
			known[p] = now
			ch.Added = append(ch.Added, p)
		}
	}
	slices.SortFunc(ch.Removed, Port.compare)
	return ch
}
