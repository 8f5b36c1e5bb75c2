package tui

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/internal/escape"
)

// lockList is an agent's locks and who waits for them, a line each.
func (m *Model) lockList(ctx context.Context, agent string) (io.ReadCloser, error) {
	locks, err := m.daemon.Locks(ctx)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, l := range locks {
		if l.Holder != agent {
			continue
		}
		path := l.Path
		if l.Tree {
			path += "/**"
		}
		fmt.Fprintf(&b, "%s  %-5s  %s", l.AcquiredAt.Local().Format(time.TimeOnly), clean(l.LockType), verbatim(path))
		for _, w := range l.Waiting {
			fmt.Fprintf(&b, "  %s waits since %s", clean(w.Holder), w.Since.Local().Format(time.TimeOnly))
		}
		b.WriteByte('\n')
	}
	return io.NopCloser(strings.NewReader(b.String())), nil
}

// checkLog is the last check of an agent's branch: how it ended, the end of its output, and where all of that is. Each
// line of the output is marked.
func (m *Model) checkLog(ctx context.Context, agent string) (io.ReadCloser, error) {
	l, err := m.daemon.CheckLog(ctx, api.CheckLogRequest{Agent: agent})
	if err != nil {
		return nil, err
	}
	ended := "passed"
	if l.Code != "" {
		ended = clean(l.Message)
	}
	var b strings.Builder
	command, _, _ := strings.Cut(l.Command, "\n")
	fmt.Fprintf(&b, "request %s: %s\n  command  %s\n", clean(l.ID), ended, verbatim(command))
	writeMarked(&b, l.Text)
	fmt.Fprintf(&b, "all of it: polisctl queue log %s --check %d\n", l.Agent, l.Check)
	return io.NopCloser(strings.NewReader(b.String())), nil
}

// writeMarked writes output of a check. No line of it can be taken for one of polis, and no sequence hides text.
func writeMarked(b *strings.Builder, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(b, "  | %s\n", escape.Lines(strings.TrimSuffix(line, "\n")))
	}
}

// leftoverList is what an agent's last command left running, a process each.
func (m *Model) leftoverList(ctx context.Context, agent string) (io.ReadCloser, error) {
	left, err := m.daemon.Leftovers(ctx, agent)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, l := range left.Leftovers {
		fmt.Fprintf(&b, "%-8d %6d MB  %s", l.PID, l.MemoryBytes>>20, verbatim(l.Program))
		for _, p := range l.Ports {
			fmt.Fprintf(&b, "  %s port %d", clean(p.Protocol), p.Port)
		}
		fmt.Fprintf(&b, "  %s\n", verbatim(l.Command))
	}
	return io.NopCloser(strings.NewReader(b.String())), nil
}
