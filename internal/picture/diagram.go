package picture

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxSide bounds a diagram, in cells: its text is a file of this repository.
const maxSide = 400

const diagramStyle = `.page{fill:#fff}.line{stroke:#57606a;stroke-width:1.3;fill:none}.tip{fill:#57606a}text{fill:#1f2328}.head{font-weight:bold}
.d0{fill:#f6f8fa}.d1{fill:#eaeef2}.d2{fill:#ddf4ff}.d3{fill:#fff}
@media(prefers-color-scheme:dark){.page{fill:#0d1117}.line{stroke:#8d96a0}.tip{fill:#8d96a0}text{fill:#e6edf3}.d0{fill:#161b22}.d1{fill:#21262d}.d2{fill:#12304f}.d3{fill:#0d1117}}
`

// A grid is the text of a diagram, as cells.
type grid struct {
	rows [][]rune
	cols int
}

// A box is a rectangle of cells; its corners are '+'.
type box struct{ x0, y0, x1, y1 int }

// Diagram draws text with lines of '-' and '|', corners and joints of '+', and arrows of '>', '<', 'v' and '^' at the
// end of a line. A closed rectangle is a box. Words between asterisks are bold. All other characters are text.
func Diagram(title, text string) ([]byte, error) {
	g := newGrid(text)
	if len(g.rows) == 0 || g.cols == 0 {
		return nil, errors.New("the diagram is empty")
	}
	if len(g.rows) > maxSide || g.cols > maxSide {
		return nil, fmt.Errorf("the diagram has %d by %d cells, more than %d", g.cols, len(g.rows), maxSide)
	}
	var c canvas
	c.open(g.cols, len(g.rows), title, diagramStyle)
	for i, b := range g.boxes() {
		depth := 0
		for j, outer := range g.boxes() {
			if j < i && outer.x0 <= b.x0 && outer.y0 <= b.y0 && outer.x1 >= b.x1 && outer.y1 >= b.y1 {
				depth++
			}
		}
		fmt.Fprintf(&c.b, `<rect class="d%d" x="%s" y="%s" width="%s" height="%s"/>`+"\n", min(depth, 3), num(centre(b.x0)), num(middle(b.y0)),
			num(centre(b.x1)-centre(b.x0)), num(middle(b.y1)-middle(b.y0)))
	}
	g.lines(&c)
	g.words(&c)
	return c.close(), nil
}

func newGrid(text string) *grid {
	g := &grid{}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		row := []rune(strings.TrimRight(line, " \r"))
		g.rows = append(g.rows, row)
		g.cols = max(g.cols, len(row))
	}
	if g.cols == 0 {
		g.rows = nil
	}
	return g
}

func (g *grid) at(x, y int) rune {
	if y < 0 || y >= len(g.rows) || x < 0 || x >= len(g.rows[y]) {
		return ' '
	}
	return g.rows[y][x]
}

// flat and steep report whether a line passes through the cell.
func (g *grid) flat(x, y int) bool {
	l, r := g.at(x-1, y), g.at(x+1, y)
	switch g.at(x, y) {
	case '-':
		return l == '-' || l == '+' || l == '<' || r == '-' || r == '+' || r == '>'
	case '+':
		return l == '-' || r == '-' || l == '<' || r == '>'
	}
	return false
}

func (g *grid) steep(x, y int) bool {
	u, d := g.at(x, y-1), g.at(x, y+1)
	switch g.at(x, y) {
	case '|':
		return u == '|' || u == '+' || u == '^' || d == '|' || d == '+' || d == 'v'
	case '+':
		return u == '|' || d == '|' || u == '^' || d == 'v'
	}
	return false
}

// tip returns the points of an arrow head in the cell; "" if there is none.
func (g *grid) tip(x, y int) string {
	cx, cy := centre(x), middle(y)
	point := func(dx, dy float64) string { return num(cx+dx) + "," + num(cy+dy) }
	switch g.at(x, y) {
	case '>':
		if g.flat(x-1, y) {
			return point(5, 0) + " " + point(-4, -4) + " " + point(-4, 4)
		}
	case '<':
		if g.flat(x+1, y) {
			return point(-5, 0) + " " + point(4, -4) + " " + point(4, 4)
		}
	case 'v':
		if g.steep(x, y-1) {
			return point(0, 9) + " " + point(-4, 0) + " " + point(4, 0)
		}
	case '^':
		if g.steep(x, y+1) {
			return point(0, -9) + " " + point(-4, 0) + " " + point(4, 0)
		}
	}
	return ""
}

// lines draws each line once, from end to end, and the arrow heads.
func (g *grid) lines(c *canvas) {
	for y := range g.rows {
		for x := 0; x < g.cols; x++ {
			if !g.flat(x, y) {
				continue
			}
			end := x
			for g.flat(end+1, y) {
				end++
			}
			c.line(g.reach(x, y, -1), middle(y), g.reach(end, y, 1), middle(y))
			x = end
		}
	}
	for x := range g.cols {
		for y := 0; y < len(g.rows); y++ {
			if !g.steep(x, y) {
				continue
			}
			end := y
			for g.steep(x, end+1) {
				end++
			}
			top, bottom := middle(y), middle(end)
			if g.at(x, y) == '|' && g.flat(x, y-1) || g.tip(x, y-1) != "" {
				top = middle(y - 1)
			}
			if g.at(x, end) == '|' && g.flat(x, end+1) || g.tip(x, end+1) != "" {
				bottom = middle(end + 1)
			}
			c.line(centre(x), top, centre(x), bottom)
			y = end
		}
	}
	for y := range g.rows {
		for x := range g.cols {
			if points := g.tip(x, y); points != "" {
				fmt.Fprintf(&c.b, `<polygon class="tip" points="%s"/>`+"\n", points)
			}
		}
	}
}

// reach is where a flat line ends: at the line or the arrow head beside it, else in the last cell.
func (g *grid) reach(x, y, side int) float64 {
	if g.at(x, y) == '-' && g.steep(x+side, y) || g.tip(x+side, y) != "" {
		return centre(x + side)
	}
	return centre(x)
}

// boxes returns the closed rectangles, the outer ones first.
func (g *grid) boxes() []box {
	var out []box
	for y := range g.rows {
		for x := range g.cols {
			if g.at(x, y) == '+' && g.flat(x+1, y) && g.steep(x, y+1) {
				if b, ok := g.boxAt(x, y); ok {
					out = append(out, b)
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b box) int { return (b.x1-b.x0)*(b.y1-b.y0) - (a.x1-a.x0)*(a.y1-a.y0) })
	return out
}

// boxAt returns the smallest box whose upper left corner is the cell.
func (g *grid) boxAt(x0, y0 int) (box, bool) {
	for x1 := x0 + 1; g.flat(x1, y0); x1++ {
		if g.at(x1, y0) != '+' || !g.steep(x1, y0+1) {
			continue
		}
		for y1 := y0 + 1; g.steep(x0, y1) && g.steep(x1, y1); y1++ {
			if g.at(x0, y1) == '+' && g.at(x1, y1) == '+' && g.closed(x0, x1, y1) {
				return box{x0, y0, x1, y1}, true
			}
		}
	}
	return box{}, false
}

func (g *grid) closed(x0, x1, y int) bool {
	for x := x0; x <= x1; x++ {
		if !g.flat(x, y) {
			return false
		}
	}
	return true
}

// words writes the text: runs of cells that are no lines, apart by two spaces or a line.
func (g *grid) words(c *canvas) {
	for y := range g.rows {
		isText := func(x int) bool {
			return g.at(x, y) != ' ' && !g.flat(x, y) && !g.steep(x, y) && g.tip(x, y) == ""
		}
		for x := 0; x < g.cols; x++ {
			if !isText(x) {
				continue
			}
			end := x
			for isText(end+1) || g.at(end+1, y) == ' ' && isText(end+2) {
				end++
			}
			words := g.rows[y][x : end+1]
			if n := headLength(words); n > 0 {
				c.text(x, y, n-2, ` class="head"`, string(words[1:n-1]))
				x, words = x+n, words[n:]
			}
			c.text(x, y, len(words), "", string(words))
			x = end
		}
	}
}

// headLength is the length of the words between asterisks that a text begins with; 0 if there are none.
func headLength(words []rune) int {
	if len(words) > 2 && words[0] == '*' {
		if i := slices.Index(words[1:], '*'); i > 0 {
			return i + 2
		}
	}
	return 0
}
