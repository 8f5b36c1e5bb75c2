package novelty

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// lastNew prints frame n of each, 5 s apart, and returns the last that was new; -1: none was.
func lastNew(frames int, frame func(n int) string) int {
	var m Meter
	out := -1
	for n := range frames {
		if m.Write([]byte(frame(n)), began.Add(time.Duration(n)*5*time.Second)) {
			out = n
		}
	}
	return out
}

func TestRepeatedOutputIsNotNew(t *testing.T) {
	const glyphs = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
	glyph := func(n int) string { return string([]rune(glyphs)[n%10]) }
	verbs := []string{"Pondering", "Cogitating", "Brewing", "Simmering"}
	for name, c := range map[string]struct {
		frame func(n int) string
		most  int // the last frame that may be new
	}{
		"the same line":                 {func(int) string { return "thinking\n" }, 0},
		"a spinner that counts seconds": {func(n int) string { return fmt.Sprintf("\r\x1b[K%s Thinking... (%ds, 1.%dk tokens)", glyph(n), n, n) }, 1},
		"a spinner with minutes":        {func(n int) string { return fmt.Sprintf("\r%s Thinking... %dm %ds", glyph(n), n/12, n*5%60) }, 1},
		"a glyph only":                  {func(n int) string { return "\b" + glyph(n) }, -1},
		"some verbs":                    {func(n int) string { return "\r" + glyph(n) + " " + verbs[n%4] + "...\x1b[1A" }, 4},
		"a screen drawn again": {func(n int) string {
			return "\x1b[H\x1b[2J> fix the test\r\n" + glyph(n) + " Working\r\n\x1b[2m? for help\x1b[0m\r\n"
		}, 0},
		"a word whose colour moves":         {func(n int) string { return "\r\x1b[1m" + "Working"[:n%7] + "\x1b[2m" + "Working"[n%7:] + "\x1b[0m\r" }, 0},
		"a title that counts":               {func(n int) string { return fmt.Sprintf("\x1b]0;task %s\x07\rok\r", strings.Repeat("x", n%50)) }, 0},
		"digits only":                       {func(n int) string { return fmt.Sprintf("%d %%\n", n) }, -1},
		"a frame that is written in pieces": {func(n int) string { return []string{"\r\x1b[", "KWai", "ting ", "for it\r"}[n%4] }, 3},
	} {
		t.Run(name, func(t *testing.T) { require.LessOrEqual(t, lastNew(400, c.frame), c.most) })
	}
}

func TestOutputThatSaysSomethingElseIsNew(t *testing.T) {
	words := strings.Fields("alpha beta gamma delta epsilon zeta eta theta iota kappa")
	for name, frame := range map[string]func(n int) string{
		"a build":           func(n int) string { return fmt.Sprintf("[%d/400] CC %s_%s.o\n", n, words[n/10%10], words[n%10]) },
		"known words again": func(n int) string { return words[n/10%10] + " " + words[n%10] + "\n" },
		"without a newline": func(n int) string { return strings.Repeat(words[n%10]+words[n/10%10]+" ", 60) },
	} {
		t.Run(name, func(t *testing.T) { require.GreaterOrEqual(t, lastNew(100, frame), 95) })
	}
}

func TestWhatFollowsSomethingNewAtOnceIsNotCompared(t *testing.T) {
	var m Meter
	require.True(t, m.Write([]byte("begin\n"), began))
	require.False(t, m.Write([]byte("at once\n"), began.Add(time.Millisecond)))
	require.True(t, m.Write([]byte("later\n"), began.Add(pause)))
	require.Equal(t, int64(len("begin\nat once\nlater\n")), m.Printed)
	require.Equal(t, began.Add(pause), m.New)
}

// TestASequenceWithoutAnEndHidesLittle: a program that ends no sequence, or a terminal's reply that was cut off, must
// not make all that follows count as nothing.
func TestASequenceWithoutAnEndHidesLittle(t *testing.T) {
	for name, begin := range map[string]string{
		"a string, and a line end":                "\x1b]0;title\n",
		"a string, and much":                      "\x1bP" + strings.Repeat("q#1;", maxString/4),
		"a control sequence, and much":            "\x1b[" + strings.Repeat("1;", maxParams/2),
		"a control sequence, and a line end":      "\x1b[1;\n",
		"a control sequence that another cuts":    "\x1b[1;\x1b[2m",
		"a string that another sequence cuts off": "\x1b]0;title\x1b[0m",
	} {
		t.Run(name, func(t *testing.T) {
			var m Meter
			m.Write([]byte(begin), began)
			require.True(t, m.Write([]byte("something else\n"), began.Add(pause)))
			require.Equal(t, text, m.state)
		})
	}
}

func TestACharacterThatIsWrittenInPiecesIsOne(t *testing.T) {
	for _, line := range []string{"größer als früher\n", "日本語のテキスト\n", "𐐀𐐁𐐂𐐃 𐐄𐐅\n", "\xe6\x97 broken \xf0\x9f\n"} {
		for k := range len(line) {
			var m Meter
			m.Write([]byte(line), began)
			now := began.Add(pause)
			require.False(t, m.Write([]byte(line[:k]), now) || m.Write([]byte(line[k:]), now.Add(pause)), "%q, cut at %d", line, k)
		}
	}
	var m Meter
	for range 10 {
		m.Write([]byte("\xf0\x9f"), began)
		require.LessOrEqual(t, len(m.split), utf8.UTFMax-1)
	}
	m.Write([]byte("\xff"), began)
	require.Empty(t, m.split, "what can be no character is not kept")
}

// TestAnythingRepeatedIsOldInTheEnd: whatever a program prints again and again, in whatever pieces, is not new for
// ever, and what is remembered is bounded. Without line ends, lines are cut wherever they are full. The next
// line depends on the place of the cut in the frame only: with b bytes of words in a frame there are about b places, and
// 256/b frames between two cuts.
func TestAnythingRepeatedIsOldInTheEnd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		frame := rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(rt, "frame")
		if rapid.Bool().Draw(rt, "words") {
			frame = []byte(rapid.StringOfN(rapid.SampledFrom([]rune("abcdeö \x1b[]m")), 1, 150, 200).Draw(rt, "text"))
		}
		pieces := rapid.SliceOfN(rapid.IntRange(1, 100), 1, 20).Draw(rt, "pieces")
		var m Meter
		const frames = 900
		now, newest, writes := began, 0, 0
		for n := range frames {
			for rest := frame; len(rest) > 0; writes++ {
				k := min(pieces[writes%len(pieces)], len(rest))
				if m.Write(rest[:k], now) {
					newest = n
				}
				rest, now = rest[k:], now.Add(pause)
			}
		}
		if newest >= frames-300 {
			rt.Fatalf("%q is new the %dth time", frame, newest)
		}
		if len(m.recent) > remembered || len(m.before) > remembered || cap(m.line) > 4*maxLine {
			rt.Fatal("too much is remembered")
		}
	})
}
