package models

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/gateway/ledger"
	"polis/daemon/gateway/usage"
)

func TestUsesAreReportedOnceForEachChange(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	var got []api.Event
	places := []Place{{"ana", "shop", filepath.Join(dir, "ana")}, {"bob", "shop", filepath.Join(dir, "bob")}}
	newReporter := func() *Reporter {
		return &Reporter{Book: new(Book), Agents: func() []Place { return slices.Clone(places) }, Publish: func(e api.Event) { got = append(got, e) }, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}
	}
	r := newReporter()
	round := func() (out []string) {
		got = nil
		r.Round()
		for _, e := range got {
			require.Equal(t, api.EventModelUsed, e.Type)
			require.Equal(t, "shop", e.Data["workspace"])
			out = append(out, fmt.Sprintf("%s %s %d", e.Agent, e.Data["use"].(api.ModelUse).Key, e.Data["requests"]))
		}
		return out
	}
	require.Empty(t, round())
	require.NoError(t, os.Mkdir(places[0].Dir, 0o700))
	l, err := ledger.Open(places[0].Dir)
	require.NoError(t, err)
	add := func(day, task, model string) {
		require.NoError(t, l.Add(ledger.Row{Key: ledger.Key{Day: day, Task: task, Service: "s", Model: model}, Counts: ledger.Counts{Requests: 1, Tokens: usage.Tokens{Input: 2}}}))
	}
	add("2026-02-01", "ana.1", "m")
	add("2026-03-01", "ana.2", "m")
	add("2026-03-02", "ana.2", "n")
	add("2026-03-02", "", "m")
	require.Equal(t, []string{"ana 2026-03-02 1", "ana ana.2 2"}, round())
	require.Equal(t, "agent ana used 2 requests and 4 tokens of model services in task ana.2 so far", got[1].Message)
	require.Equal(t, []string{"m", "n"}, got[1].Data["models"])
	require.Empty(t, round(), "nothing has changed")
	add("2026-03-02", "ana.2", "n")
	require.Equal(t, []string{"ana ana.2 3"}, round())

	// A new polisd reports the sums of the last days again.
	r = newReporter()
	require.Equal(t, []string{"ana 2026-03-02 1", "ana ana.2 3"}, round())

	// The last use of an agent that was removed is reported, once.
	add("2026-03-02", "ana.2", "n")
	places = places[1:]
	require.Equal(t, []string{"ana ana.2 4"}, round())
	add("2026-03-02", "ana.2", "n")
	require.Empty(t, round())
	require.Empty(t, r.told["ana"])
}

func TestManyTasksOfOneAgentAreReportedInTurn(t *testing.T) {
	dir := t.TempDir()
	l, err := ledger.Open(dir)
	require.NoError(t, err)
	for i := range 20 {
		require.NoError(t, l.Add(ledger.Row{Key: ledger.Key{Day: "2026-03-02", Task: fmt.Sprintf("ana.%d", i)}, Counts: ledger.Counts{Requests: 1}}))
	}
	n := 0
	r := &Reporter{Book: new(Book), Agents: func() []Place { return []Place{{"ana", "w", dir}} }, Publish: func(api.Event) { n++ }, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC) }}
	for _, want := range []int{8, 16, 20, 20} {
		r.Round()
		require.Equal(t, want, n)
	}
}

// TestTheUseOfATaskIsReportedAtItsEnd: receipts have it soon after the merge.
func TestTheUseOfATaskIsReportedAtItsEnd(t *testing.T) {
	at := Place{"ana", "shop", t.TempDir()}
	l, err := ledger.Open(at.Dir)
	require.NoError(t, err)
	require.NoError(t, l.Add(ledger.Row{Key: ledger.Key{Day: "2026-03-02", Task: "ana.1", Service: "s", Model: "m"}, Counts: ledger.Counts{Requests: 1}}))
	ended, got := make(chan string), make(chan api.Event, 8)
	r := &Reporter{Book: new(Book), Agents: func() []Place { return []Place{at} }, Publish: func(e api.Event) { got <- e }, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC) }, Ended: ended}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	ended <- "nobody"
	ended <- "ana"
	require.Equal(t, "ana.1", (<-got).Data["task"])
	ended <- "ana"
	cancel()
	<-done
	r.Round()
	require.Empty(t, got, "nothing has changed since")
}
