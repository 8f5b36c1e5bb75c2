package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// cell is one field of a table.
type cell struct {
	text  string
	color paint
}

const (
	wideGap   = 3  // cells between columns
	narrowGap = 2  // the same where the table does not fit otherwise
	readable  = 20 // a text is not cut below this many cells while a column can be left out
	least     = 8  // a text is not cut below this many cells
)

// identities are the headings of the columns that name a row: a person types them into the next command. They are
// never cut and never left out.
var identities = []string{"ID", "NAME", "AGENT", "HOLDER", "ENTRY", "PID"}

// states are the headings of the columns that are cut only if nothing else is left to cut.
var states = []string{"STATE", "STATUS", "VERDICT"}

// leftOut are the headings of the columns that are left out where a table does not fit, in this order. The first column
// of a table always stays.
var leftOut = []string{
	"TOKEN", "HEAD", "TREE", "MODE", "CONTENT", "COVERS", "TRASH", "MADE", "PROTOCOL", "WORKSPACE", "ROLE", "SHIM", "PRESSURE",
	"FILES", "PIDS", "READ TIME", "WRITE TIME", "LOCK CONFLICTS", "TYPE", "VERSION", "CACHED", "FIRST", "OBJECTS", "TOKENS", "TOKENS/S",
	"MEMORY", "PORTS", "FOR", "BY", "HOLD", "PRIORITY", "SIZE", "AVAILABLE", "BRANCH", "KIND", "TOOK", "UNCHANGED", "COST",
	"TIME", "OPENED", "HELD", "SINCE", "AGE", "QUIET",
}

// cutLeft are the headings of the columns whose texts differ at the end: they are cut at the beginning.
var cutLeft = []string{"PATH", "BRANCH", "WORKTREE", "PROJECT", "TARGET"}

// cuts is what of a page's tables does not fit on the terminal.
type cuts struct {
	some    bool     // a text is cut
	columns []string // are left out
}

// table prints rows below head, in columns as wide as needed. Without rows it prints the empty text. On a terminal
// that is too narrow, texts are cut and columns are left out, which end reports.
func (p *page) table(empty string, head []string, rows [][]cell) {
	if len(rows) == 0 {
		p.line("%s", empty)
		return
	}
	p.list = true
	all := make([][]cell, 0, len(rows)+1)
	top := make([]cell, len(head))
	for i, h := range head {
		top[i] = cell{h, bold}
	}
	all = append(append(all, top), rows...)
	need := make([]int, len(head))
	for _, row := range all {
		for i := range row {
			row[i].text = clean(row[i].text)
			if row[i].text == "" {
				row[i].text = "-"
			}
			need[i] = max(need[i], ansi.StringWidth(row[i].text))
		}
	}
	width, gap := fit(head, need, p.width)
	for i, w := range width {
		switch {
		case w == 0 && !slices.Contains(p.lost.columns, head[i]):
			p.lost.columns = append(p.lost.columns, head[i])
		case w > 0 && w < need[i]:
			p.lost.some = true
		}
	}
	for _, row := range all {
		var b strings.Builder
		pad := 0
		for i, c := range row {
			if width[i] == 0 {
				continue
			}
			text := cut(c.text, width[i], slices.Contains(cutLeft, head[i]))
			b.WriteString(strings.Repeat(" ", pad))
			b.WriteString(p.paint(c.color, text))
			pad = width[i] - ansi.StringWidth(text) + gap
		}
		fmt.Fprintln(p.w, b.String())
	}
}

// cut shortens text to width cells. A wide character counts as two.
func cut(text string, width int, keepEnd bool) string {
	w := ansi.StringWidth(text)
	switch {
	case w <= width:
		return text
	case !keepEnd:
		return ansi.Truncate(text, width, "…")
	}
	short := text
	for n := w - width + 1; ansi.StringWidth(short) > width; n++ { // more than once if half of a wide character is left
		short = ansi.TruncateLeft(text, n, "…")
	}
	return short
}

// fit returns the width of each column, 0 for those that are left out, and the gap between columns, for a table whose
// columns need so many cells and have total. A total below narrowest is without bound.
func fit(head []string, need []int, total int) (width []int, gap int) {
	width = slices.Clone(need)
	if total < narrowest || taken(width, wideGap) <= total {
		return width, wideGap
	}
	cuttable := func(i int) bool { return !slices.Contains(identities, head[i]) }
	text := func(i int) bool { return cuttable(i) && !slices.Contains(states, head[i]) }
	if shrink(width, total, readable, text) {
		return width, narrowGap
	}
	for _, h := range leftOut {
		if i := slices.Index(head, h); i > 0 {
			need = slices.Clone(need)
			need[i] = 0
			copy(width, need)
			if shrink(width, total, readable, text) {
				return width, narrowGap
			}
		}
	}
	if !shrink(width, total, least, text) {
		shrink(width, total, least, cuttable)
	}
	return width, narrowGap
}

// shrink cuts the widest of the columns that may be cut until all fit into total cells, and reports whether they do.
// It makes none narrower than floor.
func shrink(width []int, total, floor int, may func(int) bool) bool {
	for taken(width, narrowGap) > total {
		widest := -1
		for i, w := range width {
			if w > floor && may(i) && (widest < 0 || w > width[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		width[widest]--
	}
	return true
}

// taken is the width of a line with columns of these widths.
func taken(width []int, gap int) int {
	sum := -gap
	for _, w := range width {
		if w > 0 {
			sum += w + gap
		}
	}
	return sum
}

// end ends a page: it reports what does not fit, and how to see it.
func (p *page) end() {
	if !p.lost.some && len(p.lost.columns) == 0 {
		return
	}
	text := "cut to " + fmt.Sprint(p.width) + " columns"
	if len(p.lost.columns) > 0 {
		text += " (without " + strings.Join(p.lost.columns, ", ") + ")"
	}
	text = p.wrapped(text+": | cat or --json shows all", 0)
	fmt.Fprintln(p.w, p.paint(dim, text))
}
