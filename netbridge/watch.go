package netbridge

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"
)

const (
	// DefaultPoll is how often a Watcher looks. sock_diag(7) can announce that
	// sockets go, not that one begins to listen, so looking it is.
	DefaultPoll = 500 * time.Millisecond
	// DefaultLinger is how long a port may be without listener before it counts
	// as gone: a development server that restarts keeps its map.
	DefaultLinger = 3 * time.Second
	// DefaultMaxPorts bounds what a Watcher reports for one agent.
	DefaultMaxPorts = 64
)

// Change is what a Watcher saw since the last one: TCP ports, in order.
type Change struct {
	Added   []uint16
	Removed []uint16
}

// Watcher notices which TCP ports an agent listens on.
type Watcher struct {
	NS       *NS
	Interval time.Duration // DefaultPoll if 0
	Linger   time.Duration // DefaultLinger if 0; negative for none
	MaxPorts int           // DefaultMaxPorts if 0; further ports are not reported
	// Ignore drops listeners that are not the agent's; nil drops those on
	// DNSAddr.
	Ignore func(Listener) bool
	Now    func() time.Time // time.Now if nil
	Log    *slog.Logger     // slog.Default if nil
}

// Run looks until ctx ends or the namespace is closed and hands every change to
// report, in order, from its own goroutine. It returns nil in both cases.
func (w *Watcher) Run(ctx context.Context, report func(Change)) error {
	w.defaults()
	tick := time.NewTicker(w.Interval)
	defer tick.Stop()
	known := map[uint16]time.Time{} // port -> last seen
	failed := false
	for {
		ls, err := w.NS.Listeners(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, ErrClosed):
			return nil
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
		select {
		case <-tick.C:
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
	if w.Now == nil {
		w.Now = time.Now
	}
	if w.Log == nil {
		w.Log = slog.Default()
	}
}

// step compares what listens now with what is known, and updates known.
func (w *Watcher) step(known map[uint16]time.Time, ls []Listener, now time.Time) Change {
	var ports []uint16
	for _, l := range ls {
		if l.Proto == "tcp" && !w.Ignore(l) {
			ports = append(ports, l.Port)
		}
	}
	slices.Sort(ports)
	ports = slices.Compact(ports)
	var ch Change
	for _, p := range ports {
		if _, ok := known[p]; ok {
			known[p] = now
		}
	}
	for p, seen := range known {
		if now.Sub(seen) > max(w.Linger, 0) {
			ch.Removed = append(ch.Removed, p)
			delete(known, p)
		}
	}
	for _, p := range ports {
		if _, ok := known[p]; !ok && len(known) < w.MaxPorts {
			known[p] = now
			ch.Added = append(ch.Added, p)
		}
	}
	slices.Sort(ch.Removed)
	return ch
}
