package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode"

	"polis/cmd/internal/agenttext"
	"polis/daemon/api"
	"polis/internal/escape"
)

// view is an answer in its three forms: the API's objects, names only, and
// words for people.
type view struct {
	json  any
	names []string
	human func(p *page)
}

// show prints v in the form that the flags select, in one write.
func (a *app) show(v view) error {
	var buf bytes.Buffer
	if err := a.render(&buf, v, isTerminal(a.stdout)); err != nil {
		return err
	}
	return a.write(buf.Bytes())
}

func (a *app) render(buf *bytes.Buffer, v view, terminal bool) error {
	switch {
	case a.json:
		return encode(buf, v.json, "  ")
	case a.quiet:
		for _, n := range v.names {
			fmt.Fprintln(buf, clean(n))
		}
	case v.human != nil:
		p := &page{w: buf, now: a.now()}
		if terminal {
			p.color, p.width = a.colors(), a.columns()
		}
		v.human(p)
		p.end()
	}
	return nil
}

// write sends p to standard output. A full disk is a failure, not a shrug.
func (a *app) write(p []byte) error {
	if _, err := a.stdout.Write(p); err != nil {
		return api.Errorf(api.CodeInternal, "write output: %w", err)
	}
	return nil
}

// encode writes v as JSON. What a terminal would act on is escaped, wherever w leads to: the value is the same.
func encode(w io.Writer, v any, indent string) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return api.Errorf(api.CodeInternal, "encode output: %w", err)
	}
	if _, err := w.Write(escape.JSON(buf.Bytes())); err != nil {
		return api.Errorf(api.CodeInternal, "write output: %w", err)
	}
	return nil
}

// list makes an empty list of a missing one: JSON readers expect [].
func list[T any](v []T) []T {
	if v == nil {
		return []T{}
	}
	return v
}

// colors reports whether the user wants colours (https://no-color.org).
func (a *app) colors() bool { return a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb" }

// page is text for people.
type page struct {
	w     io.Writer
	color bool
	now   time.Time
	width int  // of the terminal, in cells; 0 is without bound
	list  bool // it has a table
	lost  cuts
}

// A paint is the parameter of an SGR escape sequence (ECMA-48 8.3.117).
type paint string

const (
	plain  paint = ""
	bold   paint = "1"
	dim    paint = "2"
	red    paint = "31"
	green  paint = "32"
	yellow paint = "33"
)

func (p *page) paint(c paint, s string) string {
	if !p.color || c == plain || s == "" {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// line prints one line; what it is given is made harmless. A text among args is
// never more than a part of that line: a file's name must not look like output of ours.
func (p *page) line(format string, args ...any) {
	fmt.Fprintln(p.w, p.wrapped(cleanText(oneLine(format, args)), 0))
}

// fields returns a function that prints a line for each value that is not empty: its label, width
// bytes wide, and the value.
func (p *page) fields(width int) func(label string, values ...string) {
	return func(label string, values ...string) {
		for _, v := range values {
			if v != "" {
				fmt.Fprintln(p.w, p.wrapped(cleanText(oneLine("  %-*s%s", []any{width, label, v})), width+2))
			}
		}
	}
}

// warn prints a line that should be seen.
func (p *page) warn(format string, args ...any) {
	fmt.Fprintln(p.w, p.paint(yellow, p.wrapped(cleanText("warning: "+oneLine(format, args)), 0)))
}

// text prints text of several lines.
func (p *page) text(s string) { fmt.Fprintln(p.w, cleanText(s)) }

func oneLine(format string, args []any) string {
	safe := make([]any, len(args))
	for i, a := range args {
		if s, ok := a.(string); ok {
			a = clean(s)
		}
		safe[i] = a
	}
	return fmt.Sprintf(format, safe...)
}

// ago returns the time since t, in one unit.
func (p *page) ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return span(p.now.Sub(t))
}

// span formats a duration: 12s, 5m, 3h, 2d.
func span(d time.Duration) string { return agenttext.Span(d) }

// size is a number of bytes in words.
func size(n int64) string {
	switch {
	case n <= 0:
		return "-"
	case n < 1024:
		return fmt.Sprintf("%dB", n)
	}
	f := float64(n)
	for _, unit := range "KMGTP" {
		if f /= 1024; f < 1024 {
			return fmt.Sprintf("%.1f%ciB", f, unit)
		}
	}
	return fmt.Sprintf("%.1fEiB", f/1024)
}

// clean makes text of unknown origin harmless in one field: whatever is not
// printable (escape sequences, line ends, bidirectional controls) is escaped.
func clean(s string) string { return escape.Text(s, unicode.IsPrint) }

// cleanText is clean for text that may have several lines.
func cleanText(s string) string { return escape.Lines(s) }
