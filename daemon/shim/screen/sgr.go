package screen

import "strconv"

// color is a colour. 0 is the default of the terminal.
type color uint32

const (
	indexed color = 1 << 24
	rgb     color = 2 << 24
)

type attr uint8

const (
	bold attr = 1 << iota
	faint
	italic
	underline
	reverse
	strike
)

// style is how a character is drawn. Attributes that hide text (blink, conceal) are dropped.
type style struct {
	fg, bg color
	attr   attr
}

// attrs are the attributes with the SGR codes that set and end them.
var attrs = [...]struct {
	attr    attr
	on, off int
}{{bold, 1, 22}, {faint, 2, 22}, {italic, 3, 23}, {underline, 4, 24}, {reverse, 7, 27}, {strike, 9, 29}}

// sgr executes Select Graphic Rendition.
func (st *style) sgr(c *csi) {
	if len(c.params) == 0 {
		*st = style{}
		return
	}
	for i := 0; i < len(c.params); i++ {
		n := max(0, c.params[i].value)
		switch {
		case n == 0:
			*st = style{}
		case n == 21: // underlined twice
			st.attr |= underline
		case n == 38 || n == 48 || n == 58:
			var col color
			var ok bool
			col, ok, i = extended(c, i)
			switch {
			case !ok || n == 58:
			case n == 38:
				st.fg = col
			default:
				st.bg = col
			}
		case n >= 30 && n <= 37:
			st.fg = indexed | color(n-30)
		case n == 39:
			st.fg = 0
		case n >= 40 && n <= 47:
			st.bg = indexed | color(n-40)
		case n == 49:
			st.bg = 0
		case n >= 90 && n <= 97:
			st.fg = indexed | color(n-90+8)
		case n >= 100 && n <= 107:
			st.bg = indexed | color(n-100+8)
		case n == 4 && i+1 < len(c.params) && c.params[i+1].sub && c.params[i+1].value == 0:
			st.attr &^= underline
		default:
			for _, a := range attrs {
				switch n {
				case a.on:
					st.attr |= a.attr
				case a.off:
					st.attr &^= a.attr
				}
			}
		}
		for i+1 < len(c.params) && c.params[i+1].sub {
			i++
		}
	}
}

// extended reads 38;5;N and 38;2;R;G;B, also with colons, from parameter i on. It returns the index
// of the last parameter that it used.
func extended(c *csi, i int) (col color, ok bool, last int) {
	sub := i+1 < len(c.params) && c.params[i+1].sub
	end := i + 1
	for sub && end < len(c.params) && c.params[end].sub {
		end++
	}
	if !sub {
		end = len(c.params)
	}
	switch args := c.params[i+1 : end]; {
	case len(args) >= 2 && args[0].value == 5:
		return indexed | color(args[1].value&0xff), true, i + 2
	case len(args) >= 4 && args[0].value == 2:
		k := 1
		if sub && len(args) >= 5 { // a colour space precedes the values
			k = 2
		}
		v := func(j int) color { return color(max(0, args[k+j].value) & 0xff) }
		return rgb | v(0)<<16 | v(1)<<8 | v(2), true, i + k + 3
	}
	return 0, false, end - 1
}

// appendSGR appends a sequence that selects the style, regardless of the style before.
func (st style) appendSGR(b []byte) []byte {
	b = append(b, "\x1b[0"...)
	for _, a := range attrs {
		if st.attr&a.attr != 0 {
			b = strconv.AppendInt(append(b, ';'), int64(a.on), 10)
		}
	}
	b = st.fg.append(b, 30, 90, 38)
	b = st.bg.append(b, 40, 100, 48)
	return append(b, 'm')
}

func (c color) append(b []byte, low, high, ext int64) []byte {
	n := int64(c & 0xffffff)
	switch {
	case c == 0:
		return b
	case c&rgb != 0:
		b = strconv.AppendInt(append(b, ';'), ext, 10)
		b = strconv.AppendInt(append(b, ";2;"...), n>>16, 10)
		b = strconv.AppendInt(append(b, ';'), n>>8&0xff, 10)
		return strconv.AppendInt(append(b, ';'), n&0xff, 10)
	case n < 8:
		return strconv.AppendInt(append(b, ';'), low+n, 10)
	case n < 16:
		return strconv.AppendInt(append(b, ';'), high+n-8, 10)
	}
	b = strconv.AppendInt(append(b, ';'), ext, 10)
	return strconv.AppendInt(append(b, ";5;"...), n, 10)
}
