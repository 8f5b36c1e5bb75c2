package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"polis/daemon/api"
	"polis/daemon/http/client"
	"polis/internal/pause"
)

// settleTime is how long changes are collected before the list is read again:
// a server that starts opens several ports.
const settleTime = 50 * time.Millisecond

// A portChange is one line of ports list --watch --json.
type portChange struct {
	// Change is "present" for what there is at the start, "added", "changed" or "removed".
	Change string          `json:"change"`
	Time   time.Time       `json:"time"`
	Port   api.PortMapping `json:"port"`
}

type portLister func(context.Context, *client.Client) ([]api.PortMapping, error)

// watchPorts shows the maps whenever polisd reports that they may have changed.
func (a *app) watchPorts(ctx context.Context, c *client.Client, look portLister) error {
	w := portWatch{app: a, known: map[string]api.PortMapping{}}
	if err := w.look(ctx, c, look); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	news := make(chan struct{}, 1)
	g.Go(func() error {
		return a.hear(ctx, c, 0, func(e api.Event) error {
			if ofPorts(e) {
				select {
				case news <- struct{}{}:
				default:
				}
			}
			return nil
		})
	})
	g.Go(func() error {
		for {
			select {
			case <-news:
			case <-ctx.Done():
				return api.Errorf(api.CodeTimeout, "%w", context.Cause(ctx))
			}
			if !pause.For(ctx, settleTime) {
				return api.Errorf(api.CodeTimeout, "%w", context.Cause(ctx))
			}
			// While polisd is away nothing changes; the other goroutine waits for it.
			if err := w.look(ctx, c, look); err != nil && api.CodeOf(err) != api.CodeUnavailable {
				return err
			}
		}
	})
	return g.Wait()
}

// ofPorts reports whether an event may have changed the port maps.
func ofPorts(e api.Event) bool {
	return e.Type == api.EventPort || e.Type == api.EventEventsMissed || strings.HasPrefix(e.Type, "agent:") || strings.HasPrefix(e.Type, "daemon:")
}

// portWatch is what was shown last.
type portWatch struct {
	app   *app
	known map[string]api.PortMapping
	begun bool
	last  []byte
}

func (w *portWatch) look(ctx context.Context, c *client.Client, look portLister) error {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	ports, err := look(ctx, c)
	if err != nil {
		return err
	}
	changes := w.compare(ports)
	switch a := w.app; {
	case a.json:
		var buf bytes.Buffer
		for _, ch := range changes {
			if err := encode(&buf, ch, ""); err != nil {
				return err
			}
		}
		return a.write(buf.Bytes())
	case isTerminal(a.stdout) || a.quiet:
		w.last, err = a.redraw(portsView(ports), w.last)
		return err
	}
	var buf bytes.Buffer
	for _, ch := range changes {
		fmt.Fprintf(&buf, "%s  %-8s %s %s at %s\n", ch.Time.Local().Format(time.DateTime), ch.Change, clean(ch.Port.Agent), innerPort(ch.Port), hostPort(ch.Port))
	}
	return w.app.write(buf.Bytes())
}

// compare records the present maps, and returns what differs.
func (w *portWatch) compare(ports []api.PortMapping) []portChange {
	now, change := w.app.now(), "added"
	if !w.begun {
		w.begun, change = true, "present"
	}
	var out []portChange
	there := map[string]api.PortMapping{}
	for _, m := range ports {
		key := m.Agent + " " + innerPort(m)
		there[key] = m
		if old, ok := w.known[key]; !ok {
			out = append(out, portChange{change, now, m})
		} else if old != m {
			out = append(out, portChange{"changed", now, m})
		}
		delete(w.known, key)
	}
	for _, m := range sortedPorts(w.known) {
		out = append(out, portChange{"removed", now, m})
	}
	w.known = there
	return out
}

func sortedPorts(m map[string]api.PortMapping) []api.PortMapping {
	return slices.SortedFunc(maps.Values(m), func(x, y api.PortMapping) int {
		return cmp.Or(cmp.Compare(x.External, y.External), cmp.Compare(x.Protocol, y.Protocol))
	})
}
