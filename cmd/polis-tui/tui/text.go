package tui

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/clipperhouse/displaywidth"

	"polis/cmd/internal/agenttext"
	"polis/daemon/api"
	"polis/internal/escape"
)

// clean makes a line of unknown origin harmless: its escape sequences are
// dropped, of what a carriage return overwrites only the last is kept, tabs
// are spaces, and whatever is still not printable, or has no certain width, is escaped.
func clean(s string) string {
	s = strings.TrimRight(s, "\r\n")
	if i := strings.LastIndexByte(s, '\r'); i >= 0 {
		s = s[i+1:]
	}
	s = escape.Text(ansi.Strip(s), func(r rune) bool { return r == '\t' || unicode.IsPrint(r) })
	return even(strings.ReplaceAll(s, "\t", "    "))
}

// verbatim makes a line harmless and hides nothing of it: what clean drops is written out. It is for what a person decides
// by, such as a diff, and for a line that is put together of several texts: none of them removes what is before it.
func verbatim(s string) string {
	s = strings.TrimSuffix(strings.TrimSuffix(s, "\n"), "\r")
	s = escape.Text(s, func(r rune) bool { return r == '\t' || unicode.IsPrint(r) })
	return even(strings.ReplaceAll(s, "\t", "    "))
}

// prose is clean for a text that is read and not compared: every kind of space is an ordinary one. Names, paths, commands
// and diffs that differ in a space only would look the same.
func prose(s string) string { return clean(escape.Spaces(s)) }

// maxMarks is how many code points a character may have. Names in any script have fewer; a tower of accents covers the
// lines around it.
const maxMarks = 6

// even escapes the characters of s for which terminals differ in how wide they are: a border after one of them would not
// be where it is expected. So do those that join what is before or after them.
func even(s string) string {
	if !slices.ContainsFunc([]byte(s), func(b byte) bool { return b >= utf8.RuneSelf }) {
		return s
	}
	var b strings.Builder
	for g := displaywidth.StringGraphemes(s); g.Next(); {
		c := g.Value()
		if n := ansi.StringWidthWc(c); n > 0 && utf8.RuneCountInString(c) <= maxMarks && ansi.StringWidth(c) == n && ansi.StringWidth(" "+c+" ") == n+2 {
			b.WriteString(c)
			continue
		}
		b.WriteString(escape.Text(c, func(r rune) bool { return r < utf8.RuneSelf }))
	}
	return b.String()
}

// fit cuts or fills s, which may be styled, to exactly w cells.
func fit(s string, w int) string {
	if w <= 0 {
		return ""
	}
	s = ansi.Truncate(s, w, "~")
	return s + strings.Repeat(" ", max(0, w-ansi.StringWidth(s)))
}

// wrap breaks s into at most n lines of w cells.
func wrap(s string, w, n int) []string {
	lines := strings.Split(ansi.Wrap(s, max(w, 1), " "), "\n")
	return lines[:min(len(lines), n)]
}

// labelled are the lines of a text with a label before the first; none if the text is empty.
func labelled(label, text string, width int) (out []string) {
	if text == "" {
		return nil
	}
	for _, line := range wrap(verbatim(text), max(10, width-13), 200) {
		out = append(out, fmt.Sprintf(" %-11s %s", label, line))
		label = ""
	}
	return out
}

// errText is an error with what to do about it.
func errText(err error) string {
	var e *api.Error
	if !errors.As(err, &e) {
		return clean(err.Error())
	}
	if e.Hint != "" {
		return clean(agenttext.Named(e.Message, e.Details)) + " (" + clean(e.Hint) + ")"
	}
	return clean(agenttext.Named(err.Error(), e.Details))
}

// size is a number of bytes in at most 6 cells.
func size(n int64) string {
	if n <= 0 {
		return "-"
	}
	f, unit := float64(n), "B"
	for _, u := range []string{"K", "M", "G", "T", "P", "E"} {
		if f < 1000 {
			break
		}
		f, unit = f/1024, u
	}
	if f < 10 && unit != "B" {
		return fmt.Sprintf("%.1f%s", f, unit)
	}
	return fmt.Sprintf("%.0f%s", f, unit)
}

// short is the beginning of a commit's name.
func short(sha string) string { return sha[:min(len(sha), 12)] }

// read returns the lines of r, made harmless by tidy: the first n, or with last the last n.
// cut: there was more. Of a line that is too long the beginning is returned, with a mark.
func read(r io.Reader, n int, last bool, tidy func(string) string) (lines []string, cut bool, err error) {
	limited := &io.LimitedReader{R: r, N: maxRead}
	in := bufio.NewReaderSize(limited, 64<<10)
	for {
		line, more, err := in.ReadLine()
		text := string(line[:min(len(line), maxLine)])
		for more && err == nil {
			_, more, err = in.ReadLine()
		}
		switch {
		case errors.Is(err, io.EOF):
			return lines, cut || limited.N <= 0, nil
		case err != nil:
			return lines, cut, err
		}
		if text = tidy(text); len(line) > maxLine {
			text += "~"
		}
		lines = append(lines, text)
		if len(lines) <= n {
			continue
		}
		cut = true
		if !last {
			return lines[:n], cut, nil
		}
		if len(lines) >= 2*n {
			lines = append([]string(nil), lines[len(lines)-n:]...)
		}
	}
}

// tail returns the last n of lines.
func tail(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }
