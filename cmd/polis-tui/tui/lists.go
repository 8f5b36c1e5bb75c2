package tui

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
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
		fmt.Fprintf(&b, "%s  %-5s  %s", l.AcquiredAt.Local().Format(time.TimeOnly), clean(l.LockType), clean(path))
		for _, w := range l.Waiting {
			fmt.Fprintf(&b, "  %s waits since %s", clean(w.Holder), w.Since.Local().Format(time.TimeOnly))
		}
		b.WriteByte('\n')
	}
	return io.NopCloser(strings.NewReader(b.String())), nil
}

// leftoverList is what an agent's last command left running, a process each.
func (m *Model) leftoverList(ctx context.Context, agent string) (io.ReadCloser, error) {
	left, err := m.daemon.Leftovers(ctx, agent)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, l := range left.Leftovers {
		fmt.Fprintf(&b, "%-8d %6d MB  %s", l.PID, l.MemoryBytes>>20, clean(l.Program))
		for _, p := range l.Ports {
			fmt.Fprintf(&b, "  %s port %d", clean(p.Protocol), p.Port)
		}
		fmt.Fprintf(&b, "  %s\n", clean(l.Command))
	}
	return io.NopCloser(strings.NewReader(b.String())), nil
}
