package table

import (
	"fmt"
	"io"
	"strings"
)

// seconds prints a time with a unit people read.
func seconds(s float64) string {
	switch {
	case s >= 10:
		return fmt.Sprintf("%.0f s", s)
	case s >= 1:
		return fmt.Sprintf("%.2f s", s)
	case s >= 0.1:
		return fmt.Sprintf("%.0f ms", s*1e3)
	case s >= 1e-3:
		return fmt.Sprintf("%.1f ms", s*1e3)
	case s >= 1e-5:
		return fmt.Sprintf("%.0f us", s*1e6)
	default:
		return fmt.Sprintf("%.2f us", s*1e6)
	}
}

// cells has the texts of a row: its name, native's time, and for each other column the ratios of
// wall time and CPU time.
func (r Row) cells(columns []string) []string {
	out := []string{r.Name}
	for _, c := range columns {
		switch {
		case !r.has(c):
			out = append(out, "")
		case c == Native && r.Ops > 0:
			out = append(out, seconds(r.Seconds(c)/float64(r.Ops)))
		case c == Native && r.AtOnce > 0:
			out = append(out, fmt.Sprintf("%s, x%.2f", seconds(r.Seconds(c)), r.PerCore(c)))
		case c == Native:
			out = append(out, seconds(r.Seconds(c)))
		default:
			cell := fmt.Sprintf("%.2f (%.2f)", r.Wall(c), r.CPU(c))
			if r.Kind == Added {
				cell += fmt.Sprintf(" %+.1f us", r.AddedMicros(c))
			}
			if r.AtOnce > 0 {
				cell += fmt.Sprintf(" x%.2f", r.PerCore(c))
			}
			out = append(out, cell)
		}
	}
	return out
}

// Legend explains the cells.
const Legend = "native: time; others: wall time as a ratio to native (CPU time of programs and servers as a ratio);\n" +
	"us: what an operation takes longer; x: CPU time of one among several at once, to that of one alone"

const nameWidth, cellWidth = 34, 24

// Head writes the table's first line for a terminal.
func Head(w io.Writer, columns []string) { text(w, append([]string{""}, columns...)) }

// Line writes one row for a terminal as soon as it is complete.
func Line(w io.Writer, columns []string, r Row) { text(w, r.cells(columns)) }

func text(w io.Writer, cells []string) {
	fmt.Fprintf(w, "%-*s", nameWidth, cells[0])
	for _, c := range cells[1:] {
		fmt.Fprintf(w, " %*s", cellWidth, c)
	}
	fmt.Fprintln(w)
}

func markdown(w io.Writer, head []string, rows [][]string) {
	line := func(cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }
	line(head)
	fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(head)))
	for _, r := range rows {
		line(r)
	}
}

// Markdown writes the report for a document.
func (r Report) Markdown(w io.Writer) {
	fmt.Fprintf(w, "%s. %s. %s.\n\n", r.Machine, r.Corpus, r.Load)
	var rows [][]string
	for _, row := range r.Rows {
		rows = append(rows, row.cells(r.Columns))
	}
	markdown(w, append([]string{""}, r.Columns...), rows)
}

// Goals writes the goals, as they were set and for this machine, and the figures of the floor and
// of the subject. It returns how many goals were met here and how many were measured.
func (r Report) Goals(w io.Writer) (met, all int) {
	var rows [][]string
	for _, row := range r.Rows {
		if row.Limit == 0 || len(row.Rounds) == 0 {
			continue
		}
		all++
		got, word, least := row.Measured(r.Subject), "no", ""
		if row.has(Floor) {
			least = fmt.Sprintf("%.2f", row.Measured(Floor))
		}
		switch {
		case got <= row.Limit:
			word = "yes"
			met++
		case got <= row.Here():
			word = "here"
			met++
		}
		rows = append(rows, []string{row.Name, string(row.Kind), fmt.Sprintf("%.2f", row.Limit), fmt.Sprintf("%.2f", row.Here()), least, fmt.Sprintf("%.2f", got), fmt.Sprintf("%.2f", row.CPU(r.Subject)), word})
	}
	markdown(w, []string{"work", "limits", "goal", "goal here", "floor", "measured", "CPU ratio", "met"}, rows)
	return met, all
}
