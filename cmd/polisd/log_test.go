package main

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/stretchr/testify/require"
)

// TestEntriesOfTheJournalHaveFields to search by, a priority, and the text of the record. What the journal
// does not take goes to stderr.
func TestEntriesOfTheJournalHaveFields(t *testing.T) {
	type entry struct {
		message string
		p       journal.Priority
		fields  map[string]string
	}
	var got []entry
	var stderr bytes.Buffer
	var refuse error
	log := slog.New(newJournalHandler(slog.LevelInfo, func(m string, p journal.Priority, f map[string]string) error {
		if refuse == nil {
			got = append(got, entry{m, p, f})
		}
		return refuse
	}, &stderr))

	log.Debug("below the level", "agent", "claude")
	log.Info("agent changed its state", "agent", "claude", "to", "Idle")
	log.With("workspace", "ws").Warn("worktrees", "err", errors.New("two\nlines"))
	log.WithGroup("g").Error("in a group", "agent", "not polis' own")
	log.With("agent", "claude").WithGroup("g").Error("before a group", "task", "claude.1")
	const id = "SYSLOG_IDENTIFIER"
	require.Equal(t, []entry{
		{`level=INFO msg="agent changed its state" agent=claude to=Idle`, journal.PriInfo, map[string]string{id: "polisd", "POLIS_AGENT": "claude"}},
		{`level=WARN msg=worktrees workspace=ws err="two\nlines"`, journal.PriWarning, map[string]string{id: "polisd", "POLIS_WORKSPACE": "ws"}},
		{`level=ERROR msg="in a group" g.agent="not polis' own"`, journal.PriErr, map[string]string{id: "polisd"}},
		{`level=ERROR msg="before a group" agent=claude g.task=claude.1`, journal.PriErr, map[string]string{id: "polisd", "POLIS_AGENT": "claude"}},
	}, got)
	require.Empty(t, stderr.String())

	refuse = errors.New("no journal")
	log.Info("agent changed its state", "agent", "claude")
	require.Equal(t, "level=INFO msg=\"agent changed its state\" agent=claude\n", stderr.String())
	require.Equal(t, journal.PriDebug, priority(slog.LevelDebug))
}
