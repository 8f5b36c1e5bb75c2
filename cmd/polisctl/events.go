package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"polis/cmd/internal/agenttext"
	"polis/daemon/api"
	"polis/daemon/http/client"
)

func (a *app) eventsCmd() *cobra.Command {
	var follow, all bool
	var since uint64
	cmd := &cobra.Command{
		Use:   "events [-f] [--since ID] [--all]",
		Short: "Show what happened",
		Long: `Show what happened: agents made and removed, refused accesses, lock conflicts,
memory limits, ports, conflicts. With -f continue until interrupted, also across a restart of
polisd. With --json and -f every line is one event. What many programs try at every
start and do without (io_uring) is left out; --all shows it.`,
		Args: takes(0, 0, ""),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more events")
	cmd.Flags().Uint64Var(&since, "since", 0, "only events after the one with this `ID`")
	cmd.Flags().BoolVar(&all, "all", false, "include refused probes, which have no effect")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !follow {
			return a.call(cmd, shortCall, func(ctx context.Context, c *client.Client) error {
				return a.pastEvents(ctx, c, since, all)
			})
		}
		return a.follow(cmd, func(ctx context.Context, c *client.Client) error {
			return a.followEvents(ctx, c, since, all)
		})
	}
	return cmd
}

func (a *app) pastEvents(ctx context.Context, c *client.Client, since uint64, all bool) error {
	events := []api.Event{}
	err := c.Events(ctx, client.EventQuery{Since: since}, func(e api.Event) error {
		if all || !e.Probe() {
			events = append(events, e)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var ids []string
	for _, e := range events {
		ids = append(ids, fmt.Sprint(e.ID))
	}
	return a.show(view{json: map[string]any{"events": events}, names: ids, human: func(p *page) {
		for _, e := range events {
			eventLine(p, e)
		}
	}})
}

func (a *app) followEvents(ctx context.Context, c *client.Client, since uint64, all bool) error {
	// A daemon that is not there at all is worth no waiting for.
	if err := c.Health(ctx); err != nil {
		return err
	}
	p := &page{color: isTerminal(a.stdout) && a.colors()}
	return a.hear(ctx, c, since, func(e api.Event) error {
		if e.Probe() && !all {
			return nil
		}
		return a.printEvent(p, e)
	})
}

// hear calls fn for events until ctx ends, also across a restart of polisd.
func (a *app) hear(ctx context.Context, c *client.Client, since uint64, fn func(api.Event) error) error {
	back := reconnect{now: a.now}
	for {
		began := a.now()
		err := c.Events(ctx, client.EventQuery{Since: since, Follow: true}, func(e api.Event) error {
			since = e.ID
			back.answered()
			return fn(e)
		})
		if ctx.Err() != nil || api.CodeOf(err) != api.CodeUnavailable || !back.again(ctx, a.now().Sub(began)) {
			return err
		}
	}
}

func (a *app) printEvent(p *page, e api.Event) error {
	var buf bytes.Buffer
	switch {
	case a.json:
		if err := encode(&buf, e, ""); err != nil {
			return err
		}
	case a.quiet:
		fmt.Fprintln(&buf, e.ID)
	default:
		p.w = &buf
		eventLine(p, e)
	}
	return a.write(buf.Bytes())
}

func eventLine(p *page, e api.Event) {
	agent := e.Agent
	if agent == "" {
		agent = "-"
	}
	color := plain
	switch e.Type {
	case api.EventDenied, api.EventLockConflict, api.EventEventsMissed, api.EventMissed:
		color = yellow
	case api.EventOOM, api.EventAgentMergeFailed, api.EventConflictFound:
		color = red
	}
	text := clean(agenttext.Named(e.Message, e.Data))
	if e.Code != "" {
		text += " [" + clean(string(e.Code)) + "]"
	}
	fmt.Fprintf(p.w, "%s  %s  %-12s  %s\n", p.paint(dim, e.Time.Local().Format(time.DateTime)),
		p.paint(color, fmt.Sprintf("%-18s", clean(e.Type))), clean(agent), text)
}
