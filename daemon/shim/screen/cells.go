package screen

import "time"

// cell is one character cell. The zero cell is blank.
type cell struct {
	text  string // a character with its combining marks; "" is blank
	style style
	wide  bool // the next cell is the right half of this character
	right bool // the right half of a wide character
}

// row is one line of a screen, with the state of the transcript for it.
type row struct {
	cells   []cell
	wrapped bool // the line continues in the next row
	used    bool // it is not blank all over

	touched bool      // changed since the last update of the transcript
	hash    uint64    // of the text at that time; 0: blank
	since   time.Time // it has been that text
	wrote   uint64    // of the text that was written; 0: none
	sent    bool      // the transcript has written it as a complete line
}

func newRow(w int) *row { return &row{cells: make([]cell, w)} }

// clear makes the cells from x0 to x1 (exclusive) blank.
func (r *row) clear(x0, x1 int) {
	if !r.used || x0 >= x1 {
		return
	}
	r.split(x0)
	r.split(x1)
	clear(r.cells[x0:x1])
	r.touched = true
	if x1 == len(r.cells) {
		r.wrapped = false
		r.used = x0 > 0
	}
}

// split blanks a wide character whose right half is at x.
func (r *row) split(x int) {
	if x > 0 && x < len(r.cells) && r.cells[x].right {
		r.cells[x-1], r.cells[x] = cell{}, cell{}
	}
}

// recycle makes the row a new, blank line.
func (r *row) recycle() {
	if r.used {
		clear(r.cells)
	}
	*r = row{cells: r.cells}
}

// resize sets the width of the row.
func (r *row) resize(w int) {
	r.split(w)
	cells := make([]cell, w)
	copy(cells, r.cells)
	if w < len(r.cells) {
		r.wrapped = false
	}
	r.cells, r.touched = cells, true
}

// insert moves the cells from x on to the right by n; remove moves them to the left.
func (r *row) insert(x, n int) {
	n = min(n, len(r.cells)-x)
	r.split(x)
	r.split(len(r.cells) - n)
	copy(r.cells[x+n:], r.cells[x:])
	clear(r.cells[x : x+n])
	r.wrapped, r.touched = false, true
}

func (r *row) remove(x, n int) {
	n = min(n, len(r.cells)-x)
	r.split(x)
	r.split(x + n)
	copy(r.cells[x:], r.cells[x+n:])
	clear(r.cells[len(r.cells)-n:])
	r.wrapped, r.touched = false, true
}

// cursor is the state that DECSC saves.
type cursor struct {
	x, y    int
	wrap    bool // the last column was written: the next character starts a new line
	style   style
	charset [2]bool // G0, G1: line drawing
	shift   int
	origin  bool
}

// grid is one of the two screens.
type grid struct {
	rows  []*row
	saved cursor
}

func newGrid(w, h int) *grid {
	g := &grid{rows: make([]*row, h)}
	for i := range g.rows {
		g.rows[i] = newRow(w)
	}
	return g
}

// up scrolls the rows from top to bottom (exclusive) up by one. The first row becomes a blank row
// at the end.
func (g *grid) up(top, bottom int) {
	first := g.rows[top]
	copy(g.rows[top:bottom], g.rows[top+1:bottom])
	first.recycle()
	g.rows[bottom-1] = first
}

func (g *grid) down(top, bottom int) {
	last := g.rows[bottom-1]
	copy(g.rows[top+1:bottom], g.rows[top:bottom-1])
	last.recycle()
	g.rows[top] = last
}

// last is the number of rows up to the last one that is not blank.
func (g *grid) last() int {
	n := len(g.rows)
	for n > 0 && !g.rows[n-1].used {
		n--
	}
	return n
}
