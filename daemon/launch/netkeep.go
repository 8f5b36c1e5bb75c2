package launch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"polis/daemon/api"
	"polis/daemon/host/isolation"
	"polis/netbridge"
)

const (
	// gatesAtOnce bounds the shims that write their rules at the same time.
	gatesAtOnce = 8
	// gatesAgain is the wait before a failed request to a shim is repeated.
	gatesAgain = time.Second
	// networkQuiet is how long equal faults of the network are counted before they are published again.
	networkQuiet = time.Minute
)

// netKeeper restores the network of the agents while polisd runs, and publishes what it had to restore.
type netKeeper struct {
	s *Shims

	mu sync.Mutex
	// closed are agents whose gates are still to be filled.
	closed map[string]bool
	// again has a value if there are any.
	again chan struct{}
	// said are the faults that were published, and omitted those since.
	said    map[string]time.Time
	omitted map[string]int
}

// keepNetwork runs until ctx ends.
func (s *Shims) keepNetwork(ctx context.Context) {
	if s.Lacks(isolation.Network) {
		return
	}
	k := &netKeeper{s: s, closed: map[string]bool{}, again: make(chan struct{}, 1), said: map[string]time.Time{}, omitted: map[string]int{}}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { k.fillAgain(ctx) })
	wg.Go(func() { s.forward.run(ctx) })
	for ctx.Err() == nil {
		if err := s.Bridge.Keep(ctx, func(r netbridge.Repair) { k.repaired(ctx, r) }, s.forward.changed); err != nil {
			s.Log.Error("changes to the network are not followed", "op", "net.keep", "err", err)
		}
		sleep(ctx, keepAgain)
	}
}

// repaired has the shims fill their gates, and publishes what happened.
func (k *netKeeper) repaired(ctx context.Context, r netbridge.Repair) {
	k.fill(ctx, r.Gates)
	faults, data := []string{}, map[string]any{}
	for _, f := range r.Faults {
		faults = append(faults, f.String())
	}
	if len(faults) == 0 && len(r.Gates) > 0 {
		faults = append(faults, "the nft table inet "+k.s.Bridge.Table()+" was lost")
	}
	data["faults"] = faults
	if len(r.Gates) > 0 {
		data["agents"] = r.Gates
	}
	by := ""
	if r.By != "" {
		data["by"], by = r.By, " (changed by "+r.By+")"
	}
	e := api.Event{Type: api.EventNetwork, Data: data}
	what := api.Shorten(fmt.Sprint(faults), 400)
	if r.Err != nil {
		e.Code, data["error"] = api.CodeBridgeFailed, r.Err.Error()
		e.Message = fmt.Sprintf("the network of the agents was changed and is not restored: %s%s: %v", what, by, r.Err)
		k.s.Log.Error("network of the agents not restored", "op", "net.keep", "faults", faults, "by", r.By, "err", r.Err)
	} else {
		e.Message = fmt.Sprintf("the network of the agents was changed and is restored: %s%s", what, by)
		k.s.Log.Warn("network of the agents restored", "op", "net.keep", "faults", faults, "by", r.By, "agents", r.Gates)
	}
	if n, ok := k.news(e.Message, time.Now()); ok {
		if n > 0 {
			data["count"] = n
		}
		k.s.Publish(e)
	}
}

// news reports whether an event is to be published, and how many equal ones were not.
func (k *netKeeper) news(text string, now time.Time) (omitted int, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for t, at := range k.said {
		if now.Sub(at) > networkQuiet && t != text {
			delete(k.said, t)
			delete(k.omitted, t)
		}
	}
	if at, found := k.said[text]; found && now.Sub(at) < networkQuiet {
		k.omitted[text]++
		return 0, false
	}
	omitted = k.omitted[text]
	k.said[text] = now
	delete(k.omitted, text)
	return omitted, true
}

// fill has the shims of these agents write their rules. Until then they are closed.
func (k *netKeeper) fill(ctx context.Context, agents []string) {
	var g errgroup.Group
	g.SetLimit(gatesAtOnce)
	for _, name := range agents {
		g.Go(func() error {
			err := k.s.Agents().RestoreGate(ctx, name)
			gone := api.CodeOf(err) == api.CodeAgentNotFound // or a setup command: its shim restores it
			if err != nil && !gone && ctx.Err() == nil {
				k.s.Log.Warn("rules of an agent's network not written again yet; it reaches nothing", "agent", name, "op", "net.keep", "err", err)
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			if err == nil || gone {
				delete(k.closed, name)
			} else {
				k.closed[name] = true
				select {
				case k.again <- struct{}{}:
				default:
				}
			}
			return nil
		})
	}
	_ = g.Wait() //nolint:errcheck // no function returns an error
}

// fillAgain repeats what failed.
func (k *netKeeper) fillAgain(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.again:
		}
		sleep(ctx, gatesAgain)
		var closed []string
		k.mu.Lock()
		for name := range k.closed {
			closed = append(closed, name)
		}
		k.mu.Unlock()
		k.fill(ctx, closed)
	}
}
