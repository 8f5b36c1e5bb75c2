package picture

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// The colours of a terminal with a dark background: 0 to 7, and the bright ones 8 to 15.
var palette = [16]string{"#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4",
	"#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff"}

const (
	background = "#0d1117"
	foreground = "#e6edf3"
)

// A style is what SGR sequences (ECMA-48) have set.
type style struct {
	fg, bg                        string // "" is the default
	bold, dim, underline, reverse bool
}

// Terminal draws the lines of a terminal of cols columns. The lines have no control sequences but SGR, as the
// packages that emulate a terminal return them; others are left out.
func Terminal(title string, cols int, lines []string) []byte {
	var c canvas
	c.open(cols, len(lines), title, ".page{fill:"+background+"}text{fill:"+foreground+"}\n")
	for row, line := range lines {
		c.styledLine(row, cols, line)
	}
	return c.close()
}

// styledLine writes the runs of equal style.
func (c *canvas) styledLine(row, cols int, line string) {
	var st style
	var run strings.Builder
	col, begin := 0, 0
	flush := func() {
		c.run(row, begin, col-begin, st, run.String())
		run.Reset()
		begin = col
	}
	p := ansi.NewParser()
	state := byte(0)
	for len(line) > 0 && col < cols {
		seq, width, n, next := ansi.DecodeSequence(line, state, p)
		state, line = next, line[n:]
		switch {
		case width > 0:
			run.WriteString(seq)
			col += width
		case ansi.Cmd(p.Command()).Final() == 'm' && strings.HasPrefix(seq, "\x1b["):
			flush()
			st.set(p.Params())
		}
	}
	flush()
}

func (c *canvas) run(row, col, width int, st style, text string) {
	if width == 0 {
		return
	}
	fg, bg := st.fg, st.bg
	if st.reverse {
		fg, bg = bg, fg
		if fg == "" {
			fg = background
		}
		if bg == "" {
			bg = foreground
		}
	}
	if bg != "" {
		fmt.Fprintf(&c.b, `<rect x="%s" y="%s" width="%s" height="%s" fill="%s"/>`+"\n", num(left(col)), num(margin+float64(row)*cellHeight), num(float64(width)*cellWidth), num(cellHeight), bg)
	}
	attributes := ""
	if fg != "" {
		attributes += ` style="fill:` + fg + `"`
	}
	if st.bold {
		attributes += ` font-weight="bold"`
	}
	if st.dim {
		attributes += ` opacity="0.65"`
	}
	if st.underline {
		attributes += ` text-decoration="underline"`
	}
	// Spaces at the sides would be kept by some renderers and stretched by others.
	trimmed := strings.TrimLeft(text, " ")
	col += len(text) - len(trimmed)
	trimmed = strings.TrimRight(trimmed, " ")
	c.text(col, row, ansi.StringWidth(trimmed), attributes, trimmed)
}

// set applies the parameters of one SGR sequence.
func (st *style) set(params ansi.Params) {
	at := func(i int) int { v, _, _ := params.Param(i, 0); return v }
	if len(params) == 0 {
		*st = style{}
	}
	for i := 0; i < len(params); i++ {
		switch v := at(i); {
		case v == 0:
			*st = style{}
		case v == 1:
			st.bold = true
		case v == 2:
			st.dim = true
		case v == 4:
			st.underline = true
		case v == 7:
			st.reverse = true
		case v == 22:
			st.bold, st.dim = false, false
		case v == 24:
			st.underline = false
		case v == 27:
			st.reverse = false
		case v >= 30 && v <= 37:
			st.fg = palette[v-30]
		case v >= 90 && v <= 97:
			st.fg = palette[v-90+8]
		case v == 39:
			st.fg = ""
		case v >= 40 && v <= 47:
			st.bg = palette[v-40]
		case v >= 100 && v <= 107:
			st.bg = palette[v-100+8]
		case v == 49:
			st.bg = ""
		case v == 38 || v == 48:
			colour, used := extended(at(i+1), at(i+2), at(i+3), at(i+4))
			i += used
			if v == 38 {
				st.fg = colour
			} else {
				st.bg = colour
			}
		}
	}
}

// extended returns a colour of 256 (5;N) or of all (2;R;G;B), and how many parameters it used.
func extended(kind, a, b, c int) (string, int) {
	switch kind {
	case 5:
		return indexed(a & 255), 2
	case 2:
		return rgb(a&255, b&255, c&255), 4
	}
	return "", 1
}

// indexed is the palette of xterm(1): 16 colours, a cube of 216, and 24 greys.
func indexed(n int) string {
	switch {
	case n < 16:
		return palette[n]
	case n < 232:
		level := func(v int) int {
			if v == 0 {
				return 0
			}
			return 55 + 40*v
		}
		n -= 16
		return rgb(level(n/36), level(n/6%6), level(n%6))
	}
	grey := 8 + 10*(n-232)
	return rgb(grey, grey, grey)
}

func rgb(r, g, b int) string { return fmt.Sprintf("#%02x%02x%02x", r, g, b) }
