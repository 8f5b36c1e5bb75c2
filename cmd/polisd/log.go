package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/journal"
)

// logger returns polisd's log. It writes text to stderr, or entries with fields to the journal if
// stderr is connected to it. The journal finds the unit of an entry by the process that sent it, so a
// process that ends at once (stays is false) writes text to the journal too.
func logger(level string, stays bool) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	if isJournal, err := journal.StderrIsJournalStream(); err != nil || !isJournal {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l}))
	}
	if !stays {
		return slog.New(slog.NewTextHandler(os.Stderr, untimed(l)))
	}
	return slog.New(newJournalHandler(l, journal.Send, os.Stderr))
}

// untimed are options without a time: the journal adds one to every entry.
func untimed(l slog.Level) *slog.HandlerOptions {
	return &slog.HandlerOptions{Level: l, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
}

// journalFields are the fields of the journal for attributes by which entries are searched.
var journalFields = map[string]string{"agent": "POLIS_AGENT", "workspace": "POLIS_WORKSPACE", "task": "POLIS_TASK"}

// journalHandler writes records to the journal, with a priority and fields to search by. The message
// is the same text that polisd writes to stderr, because journalctl shows only the message.
type journalHandler struct {
	send func(message string, p journal.Priority, fields map[string]string) error
	// stderr gets the records that the journal did not take.
	stderr io.Writer

	// text writes to line. Both are shared with the handlers derived from this one, and guarded by mu.
	text slog.Handler
	line *bytes.Buffer
	mu   *sync.Mutex

	fields  map[string]string
	inGroup bool
}

func newJournalHandler(l slog.Level, send func(string, journal.Priority, map[string]string) error, stderr io.Writer) *journalHandler {
	line := &bytes.Buffer{}
	return &journalHandler{send: send, stderr: stderr, text: slog.NewTextHandler(line, untimed(l)), line: line, mu: &sync.Mutex{},
		fields: map[string]string{"SYSLOG_IDENTIFIER": "polisd"}}
}

func (h *journalHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.text.Enabled(ctx, l)
}

func (h *journalHandler) Handle(ctx context.Context, r slog.Record) error {
	message, err := h.format(ctx, r)
	if err != nil {
		return err
	}
	fields := maps.Clone(h.fields)
	r.Attrs(func(a slog.Attr) bool { h.addField(fields, a); return true })
	if err := h.send(message, priority(r.Level), fields); err != nil {
		_, err = fmt.Fprintln(h.stderr, message)
		return err
	}
	return nil
}

func (h *journalHandler) format(ctx context.Context, r slog.Record) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.line.Reset()
	err := h.text.Handle(ctx, r)
	return strings.TrimSuffix(h.line.String(), "\n"), err
}

func (h *journalHandler) addField(fields map[string]string, a slog.Attr) {
	if name := journalFields[a.Key]; name != "" && !h.inGroup {
		fields[name] = a.Value.Resolve().String()
	}
}

func (h *journalHandler) WithAttrs(as []slog.Attr) slog.Handler {
	n := *h
	n.text, n.fields = h.text.WithAttrs(as), maps.Clone(h.fields)
	for _, a := range as {
		n.addField(n.fields, a)
	}
	return &n
}

func (h *journalHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	n := *h
	n.text, n.inGroup = h.text.WithGroup(name), true
	return &n
}

// priority is that of syslog(3) for a level.
func priority(l slog.Level) journal.Priority {
	switch {
	case l >= slog.LevelError:
		return journal.PriErr
	case l >= slog.LevelWarn:
		return journal.PriWarning
	case l >= slog.LevelInfo:
		return journal.PriInfo
	}
	return journal.PriDebug
}
