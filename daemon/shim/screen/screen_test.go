package screen

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// text returns the screen's text without colours.
func text(s *Screen) string {
	var out []string
	for i := range s.at.rows[:s.at.last()] {
		out = append(out, strings.TrimRight(string(s.at.rows[i].plain(nil)), " "))
	}
	return strings.Join(out, "\n")
}

func on(t *testing.T, rows, cols int, in string) *Screen {
	t.Helper()
	s := New(rows, cols)
	_, err := s.Write([]byte(in))
	require.NoError(t, err)
	return s
}

func TestWhatAProgramDraws(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"lines":                             {"one\r\ntwo\r\n", "one\ntwo"},
		"a carriage return overwrites":      {"50%\r100%", "100%"},
		"spaces that the cursor makes":      {"Do\x1b[Cyou\x1b[Cwant\x1b[Cto\x1b[2Cedit", "Do you want to  edit"},
		"positions":                         {"\x1b[2;3Hb\x1b[1;1Ha", "a\n  b"},
		"tabs":                              {"a\tb\r\n\x1b[3g\x1b[5G\x1bH\ra\tb", "a       b\na   b"},
		"erase to the end":                  {"abcdef\x1b[3D\x1b[K", "abc"},
		"erase the line":                    {"abcdef\x1b[2K", ""},
		"erase characters":                  {"abcdef\r\x1b[2X", "  cdef"},
		"delete and insert characters":      {"abcdef\r\x1b[2P\x1b[@x", "xcdef"},
		"insert mode":                       {"bc\r\x1b[4ha\x1b[4l", "abc"},
		"insert and delete lines":           {"a\r\nb\r\nc\x1b[2;1H\x1b[Lx\x1b[1;1H\x1b[M", "x\nb\nc"},
		"a region scrolls alone":            {"top\r\na\r\nb\r\nc\r\nend\x1b[2;4r\x1b[4;1H\n\x1b[rx", "xop\nb\nc\n\nend"},
		"reverse index":                     {"a\r\nb\x1b[H\x1bMx", "x\na\nb"},
		"wide characters":                   {"日本\x1b[2G!", " !本"},
		"marks":                             {"e\u0301x", "e\u0301x"},
		"line drawing":                      {"\x1b(0lqk\x1b(B|", "┌─┐|"},
		"repeat":                            {"ab\x1b[3bc", "abbbbc"},
		"saved cursor":                      {"a\x1b7bcd\x1b8x", "axcd"},
		"the title and links are not shown": {"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"},
		"other strings are not shown":       {"a\x1bPq#0\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d", "abcd"},
		"a string that is cut short":        {"\x1b]0;title\x18a", "a"},
		"nothing is answered":               {"\x1b[c\x1b[6n\x1b[?1;2$pa", "a"},
		"text may not turn its direction":   {"a\u202eb\u2066c", "abc"},
		"C1 controls are no controls":       {"a\u009b31mb", "a31mb"},
		"bytes that are not UTF-8":          {"a\xffb\xc3c\xe2\x82", "a\ufffdb\ufffdc"},
		"the main screen comes back":        {"main\x1b[?1049h\x1b[Halt\x1b[?1049l more", "main more"},
		"the alternate screen":              {"main\x1b[?1049h\x1b[Halt", "alt"},
		"a reset":                           {"a\x1b[31m\x1b[?25l\x1bcb", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, text(on(t, 5, 20, c.in)))
		})
	}
}

func TestColoursAreKept(t *testing.T) {
	s := on(t, 5, 60, "\x1b[1;31mred\x1b[m \x1b[38;5;200mx\x1b[0;48:2::1:2:3my\x1b[0;97;3;4mz\x1b[23;4:0mw\r\n\x1b[8mseen\x1b[5m")
	lines, all := s.Lines(10)
	require.True(t, all)
	require.Equal(t, "\x1b[0;1;31mred\x1b[0m \x1b[0;38;5;200mx\x1b[0;48;2;1;2;3my\x1b[0;3;4;97mz\x1b[0;97mw\x1b[0m", lines[0])
	require.Equal(t, "\x1b[0;97mseen\x1b[0m", lines[1], "nothing is hidden")
}

// transcribe writes a program's output in parts. Each part has the time until the next.
func transcribe(t *testing.T, s *Screen, writes []string, pause time.Duration) string {
	t.Helper()
	var out strings.Builder
	now := time.Unix(0, 0)
	for _, w := range writes {
		_, err := s.Write([]byte(w))
		require.NoError(t, err)
		out.Write(s.Take())
		now = now.Add(40 * time.Millisecond)
		s.Settle(now)
		out.Write(s.Take())
		if now = now.Add(pause); pause > Settled {
			s.Settle(now)
			out.Write(s.Take())
		}
	}
	s.End()
	out.Write(s.Take())
	return out.String()
}

func TestTheTranscriptHasEveryLineOnce(t *testing.T) {
	for name, c := range map[string]struct {
		writes []string
		want   string
	}{
		"lines":                {[]string{"a\r\n", "b\r\nc", "\r\n"}, "a\nb\nc\n"},
		"the same line again":  {[]string{"a\r\na\r\n", "\r\n\r\na\r\n"}, "a\na\n\n\na\n"},
		"a prompt at the end":  {[]string{"a\r\n$ "}, "a\n$ \n"},
		"more than the screen": {[]string{"1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n"}, "1\n2\n3\n4\n5\n6\n7\n8\n"},
		"a progress bar":       {[]string{"10%", "\r50%", "\r100%\r\n"}, "100%\n"},
		"a long line is one":   {[]string{strings.Repeat("0123456789", 7) + "\r\nx\r\n"}, strings.Repeat("0123456789", 7) + "\nx\n"},
		"long lines that move": {[]string{strings.Repeat("a", 45) + "\r\n1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n"}, strings.Repeat("a", 45) + "\n1\n2\n3\n4\n5\n6\n"},
		"what is cleared":      {[]string{"a\r\nb\r\n\x1b[H\x1b[2J", "c\r\n"}, "a\nb\nc\n"},
		"a line is rewritten":  {[]string{"working\r\nbelow\r\n", "\x1b[2A\x1b[2Kdone\x1b[2B\r"}, "working\nbelow\ndone\n"},
		"a frame that is drawn again below a new line": {
			[]string{"box\r\nstatus\r\n", "\x1b[2A\x1b[Jsaid\r\nbox\r\nstatus\r\n", "\x1b[2A\x1b[Jmore\r\nbox\r\nstatus\r\n"},
			"box\nstatus\nsaid\nmore\n",
		},
		"the alternate screen, at the end": {[]string{"a\r\n\x1b[?1049h\x1b[Hfull\r\n"}, "a\nfull\n"},
		"the alternate screen that went":   {[]string{"a\r\n\x1b[?1049h\x1b[Hfull\x1b[?1049lb\r\n"}, "a\nb\n"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, strings.ReplaceAll(c.want, "$ \n", "$\n"), transcribe(t, New(5, 20), c.writes, 0))
		})
	}
}

func TestTheTranscriptOfWhatStays(t *testing.T) {
	require.Equal(t, "a\nName?\nName? bob\n", transcribe(t, New(5, 20), []string{"a\r\nName? ", "bob\r\n"}, time.Second))
	require.Equal(t, "file one\nfile two\n~ 2 lines\nfile 2.5\n",
		transcribe(t, New(5, 20), []string{"\x1b[?1049h\x1b[Hfile one\r\nfile two\x1b[5H~ 2 lines", "\x1b[H\x1b[L\x1b[2;1H\x1b[Lfile 2.5"}, time.Second))
}

// TestNoLineIsLost: every line of output, however it is split into writes, is in the transcript
// unchanged. The last lines are in the scroll-back and on the screen.
func TestNoLineIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.StringMatching(`([a-z日é]{0,9} ?){0,9}[a-z]?`), 0, 60).Draw(t, "lines")
		for i := range lines {
			lines[i] = strings.TrimRight(lines[i], " ")
		}
		in := []byte(strings.Join(append(lines, ""), "\r\n"))
		s := New(rapid.IntRange(2, 12).Draw(t, "rows"), rapid.IntRange(4, 40).Draw(t, "cols"))
		var out strings.Builder
		now := time.Unix(0, 0)
		for len(in) > 0 {
			n := rapid.IntRange(1, len(in)).Draw(t, "piece")
			_, err := s.Write(in[:n])
			require.NoError(t, err)
			in = in[n:]
			out.Write(s.Take())
			if rapid.Bool().Draw(t, "settles") {
				now = now.Add(40 * time.Millisecond)
				s.Settle(now)
				out.Write(s.Take())
			}
		}
		s.End()
		out.Write(s.Take())
		for len(lines) > 0 && lines[len(lines)-1] == "" { // blank lines below the last one are invisible
			lines = lines[:len(lines)-1]
		}
		got := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
		if len(lines) > 0 {
			require.Equal(t, lines, got)
		}
		shown, all := s.Lines(1000)
		require.True(t, all)
		for len(shown) > 0 && shown[len(shown)-1] == "" {
			shown = shown[:len(shown)-1]
		}
		require.Equal(t, strings.Join(lines, "\n"), strings.Join(shown, "\n"))
	})
}

// TestPaintDrawsTheSameScreen: a client that attaches gets the same screen in the same modes.
func TestPaintDrawsTheSameScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := New(6, 20)
		_, err := a.Write(hostile(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), 400))
		require.NoError(t, err)
		b := New(6, 20)
		_, err = b.Write(a.Paint())
		require.NoError(t, err)
		require.Equal(t, strings.TrimRight(text(a), "\n"), strings.TrimRight(text(b), "\n"))
		require.Equal(t, a.at == a.main, b.at == b.main)
		require.Equal(t, a.modes.reports, b.modes.reports)
		require.Equal(t, a.modes.hidden, b.modes.hidden)
		require.Equal(t, [2]int{a.cur.x, a.cur.y}, [2]int{b.cur.x, b.cur.y})
	})
}

// hostile generates sequences with arbitrary parameters.
func hostile(r *rand.Rand, n int) []byte {
	var b []byte
	for len(b) < n {
		switch r.IntN(6) {
		case 0:
			b = append(b, byte(r.IntN(256)))
		case 1:
			b = fmt.Appendf(b, "%x", r.Uint32())
		case 2:
			b = fmt.Appendf(b, "\x1b[%d;%d%c", r.IntN(30), r.IntN(30), 0x40+r.IntN(0x3f))
		case 3:
			b = fmt.Appendf(b, "\x1b[%d%c", r.IntN(1<<20), 0x40+r.IntN(0x3f))
		case 4:
			modes := []int{6, 7, 25, 47, 1047, 1048, 1049, 1000, 2004, 4}
			b = fmt.Appendf(b, "\x1b[?%d%c", modes[r.IntN(len(modes))], "hl"[r.IntN(2)])
		case 5:
			b = append(b, []string{"\r\n", "\x1bM", "\x1bD", "\x1b7", "\x1b8", "日本", "e\u0301", "\t", "\b", "\x1b(0", "\x1b]0;x\x07"}[r.IntN(11)]...)
		}
	}
	return b
}

// check requires that the screen is consistent and within its limits.
func check(t require.TestingT, s *Screen) {
	require.True(t, s.cur.x >= 0 && s.cur.x < s.w && s.cur.y >= 0 && s.cur.y < s.h)
	require.True(t, s.top >= 0 && s.top < s.bottom && s.bottom <= s.h)
	require.LessOrEqual(t, len(s.back.lines), maxBack)
	require.LessOrEqual(t, s.back.bytes, backText+maxLine+maxStyled)
	require.LessOrEqual(t, len(s.known), maxSeen+1)
	require.LessOrEqual(t, len(s.kitty), maxKitty)
	for _, g := range []*grid{s.main, s.alt} {
		if g == nil {
			continue
		}
		require.Len(t, g.rows, s.h)
		for i := range g.rows {
			r := g.rows[i]
			require.Len(t, r.cells, s.w)
			for x, c := range r.cells {
				if len(c.text) > maxMarks+4 || c.right != (x > 0 && r.cells[x-1].wide) || !r.used && c.text != "" {
					require.Fail(t, "a bad cell", "row %d (used: %v), column %d: %+v", i, r.used, x, c)
				}
			}
		}
	}
	lines, _ := s.Lines(maxBack)
	for _, l := range lines {
		require.LessOrEqual(t, len(l), maxLine+maxStyled+maxCols*(maxMarks+4))
	}
}

func FuzzScreen(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(hostile(rand.New(rand.NewPCG(seed, 2)), 300), uint16(seed), uint16(3*seed))
	}
	f.Fuzz(func(t *testing.T, in []byte, rows, cols uint16) {
		s := New(8, 24)
		half := len(in) / 2
		_, _ = s.Write(in[:half])
		s.Settle(time.Unix(0, 0))
		check(t, s)
		s.Resize(int(rows%40), int(cols%100))
		check(t, s)
		_, _ = s.Write(in[half:])
		s.Settle(time.Unix(1, 0))
		s.End()
		check(t, s)
		for i, b := range s.Take() {
			if b < 0x20 && b != '\n' && b != 0x1b {
				t.Fatalf("control %#x at %d of the transcript", b, i)
			}
		}
		again := New(s.h, s.w)
		_, _ = again.Write(s.Paint())
		check(t, again)
	})
}

// TestTheTranscriptIsBounded: the length of the transcript is proportional to that of the output.
func TestTheTranscriptIsBounded(t *testing.T) {
	for name, in := range map[string]string{
		"repeats": "x\x1b[9999b\n", "clears": "\x1b[9999;9999Hx\x1b[2J", "screens": "\x1b[?1049hx\x1b[?1049l", "scrolls": "x\x1b[9999S", "colours": "\x1b[38;2;1;2;3mx\x1b[48;2;3;2;1my\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := New(24, 80)
			p := []byte(strings.Repeat(in, 1+(32<<10)/len(in)))
			_, err := s.Write(p)
			require.NoError(t, err)
			require.LessOrEqual(t, len(s.Take()), 40*len(p))
			check(t, s)
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	for name, in := range map[string]string{
		"log":      "ok  example/package/agent 1.234s coverage 50% of statements\r\n",
		"yes":      "y\r\n",
		"colours":  "\x1b[1;31merror\x1b[0m: \x1b[38;5;200mthing\x1b[0m\r\n",
		"clears":   "\x1b[2Jx",
		"inserts":  "\x1b[99@",
		"screens":  "\x1b[?1049h\x1b[?1049l",
		"repeats":  "x\x1b[65535b",
		"lines in": "\x1b[H\x1b[99L",
		"tabs":     "\x1b[65535I\x1b[65535Z",
	} {
		for _, size := range [][2]int{{24, 80}, {maxRows, maxCols}} {
			b.Run(fmt.Sprintf("%s/%dx%d", name, size[0], size[1]), func(b *testing.B) {
				s := New(size[0], size[1])
				p := []byte(strings.Repeat(in, (32<<10)/len(in)))
				b.SetBytes(int64(len(p)))
				for b.Loop() {
					_, _ = s.Write(p)
					s.Settle(time.Now())
					s.Take()
				}
			})
		}
	}
}
