package config

import (
	"log/slog"

	"polis/netbridge/egress"
)

// WithoutAsk is the egress of an agent whose shim is of a version that asks about no connections:
// what a person would decide about is closed.
func WithoutAsk(agent string, entries []string, log *slog.Logger) []string {
	if p, err := egress.Parse(entries); err != nil || !p.Asking() {
		return entries
	}
	log.Warn("connections that need an approval are refused until the agent's next start: its shim is of an older polis", "agent", agent)
	return egress.WithoutAsk(entries)
}
