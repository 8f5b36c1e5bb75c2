package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

var errEnough = errors.New("enough")

// until follows the events after since until one is done, and returns all of them.
func (d *daemon) until(since uint64, done func(api.Event) bool) []api.Event {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	c := client.New(d.path("run", "polisd.sock"))
	defer c.Close()
	var got []api.Event
	err := c.Events(ctx, client.EventQuery{Since: since, Follow: true}, func(e api.Event) error {
		got = append(got, e)
		if done(e) {
			return errEnough
		}
		return nil
	})
	require.ErrorIs(d.t, err, errEnough, "got %v", got)
	return got
}

// TestEventsReportTheLifeOfAnAgent: an event reports every change of an agent's state and every
// outcome of a branch, in order. A reader continues where it stopped, also after a restart.
func TestEventsReportTheLifeOfAnAgent(t *testing.T) {
	d := startDaemon(t, options{config: "\n[locks]\nwait = \"5s\"\ngrace = \"2s\"\nhold = \"close\"\n"})
	d.up()
	d.add("alice")
	d.add("bob")
	d.sh("alice", "echo alice >main.txt; git commit -qam alice")
	d.must("merge", "alice")
	d.must("agents", "stop", "bob")
	d.must("agents", "start", "bob")
	d.sh("bob", "echo bob >main.txt; git commit -qam bob")
	d.refused(api.CodeMergeConflict, "merge", "bob")
	d.must("discard", "bob", "--yes")
	d.must("agents", "remove", "alice", "--force")

	var told []string
	var last uint64
	for _, e := range d.until(0, func(e api.Event) bool { return e.Type == api.EventAgentRemoved && e.Agent == "alice" }) {
		require.Greater(t, e.ID, last)
		last = e.ID
		switch e.Type {
		case api.EventAgentStatus:
			told = append(told, fmt.Sprint(e.Agent, " ", e.Data["from"], ">", e.Data["to"]))
		case api.EventAgentCreated, api.EventAgentMerged, api.EventAgentMergeFailed, api.EventAgentDiscarded, api.EventAgentRemoved:
			told = append(told, e.Agent+" "+e.Type)
		}
	}
	at := 0
	for _, want := range []string{
		"alice Creating>Idle", "alice agent:created", "bob Creating>Idle", "bob agent:created", "alice agent:merged",
		"bob Idle>Stopped", "bob agent:merge-failed", "bob agent:discarded", "alice agent:removed",
	} {
		found := false
		for ; at < len(told) && !found; at++ {
			found = told[at] == want
		}
		require.True(t, found, "%s comes in its order in %v", want, told)
	}

	d.stop()
	d.start()
	after := d.until(last, func(e api.Event) bool { return e.Type == api.EventReconciled })
	require.Equal(t, api.EventEventsMissed, after[0].Type, "the last events of an earlier life are not kept, which is an event")
	require.Equal(t, last, after[0].ID)
	for _, e := range after[1:] {
		require.Greater(t, e.ID, last, "a number is not given out again")
	}
}
