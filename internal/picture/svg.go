package picture

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"unicode"
)

// The size of a character cell and the margin, in units of the picture.
const (
	cellWidth  = 8.4
	cellHeight = 19.0
	fontSize   = 14
	margin     = 16.0
)

// A canvas collects the elements of one picture.
type canvas struct{ b bytes.Buffer }

// open begins a picture for so many cells, described for readers who do not see it.
func (c *canvas) open(cols, rows int, title, style string) {
	w, h := 2*margin+float64(cols)*cellWidth, 2*margin+float64(rows)*cellHeight
	fmt.Fprintf(&c.b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img">`+"\n", num(w), num(h), num(w), num(h))
	fmt.Fprintf(&c.b, "<title>%s</title>\n<style>\ntext{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:%dpx;white-space:pre}\n%s</style>\n",
		escape(title), fontSize, style)
	fmt.Fprintf(&c.b, `<rect class="page" width="%s" height="%s" rx="8"/>`+"\n", num(w), num(h))
}

func (c *canvas) close() []byte {
	c.b.WriteString("</svg>\n")
	return c.b.Bytes()
}

func (c *canvas) line(x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.b, `<path class="line" d="M%s %sL%s %s"/>`+"\n", num(x1), num(y1), num(x2), num(y2))
}

// text writes a run of characters in cells; its length is fixed, so that columns align in every font.
func (c *canvas) text(col, row, width int, attributes, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	fmt.Fprintf(&c.b, `<text x="%s" y="%s" textLength="%s" lengthAdjust="spacingAndGlyphs"%s xml:space="preserve">%s</text>`+"\n",
		num(left(col)), num(margin+float64(row)*cellHeight+14), num(float64(width)*cellWidth), attributes, escape(text))
}

// left is the left edge of a column, centre and middle are the centre of a cell.
func left(col int) float64   { return margin + float64(col)*cellWidth }
func centre(col int) float64 { return left(col) + cellWidth/2 }
func middle(row int) float64 { return margin + float64(row)*cellHeight + cellHeight/2 }

// num prints a coordinate with at most one decimal.
func num(v float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
}

// escape returns text for XML. Characters that XML cannot have become spaces.
func escape(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder never fails
	return b.String()
}
