package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

func TestOutputForATerminalIsFiltered(t *testing.T) {
	for name, c := range map[string]struct{ in, out string }{
		"text":                         {"a b\tc\r\nä 日本 ☃\n", "a b\tc\r\nä 日本 ☃\n"},
		"colours":                      {"\x1b[1;31mred\x1b[0m \x1b[38:2::1:2:3mx\x1b[m", "\x1b[1;31mred\x1b[0m \x1b[38:2::1:2:3mx\x1b[m"},
		"the screen is cleared":        {"a\x1b[2J\x1b[H\x1b[?1049hb", "ab"},
		"the title is set":             {"a\x1b]0;pwn\x07b\x1b]2;pwn\x1b\\c", "abc"},
		"the clipboard is set":         {"a\x1b]52;c;cm0gLXJm\x07b", "ab"},
		"queries of the terminal":      {"a\x1b[c\x1b[6n\x1b[>qb", "ab"},
		"a device string":              {"a\x1bP+q544e\x1b\\b\x1b_x\x1b\\c\x1b^x\x1b\\d", "abcd"},
		"no colour, though it ends so": {"a\x1b[>4mb\x1b[?1mc", "abc"},
		"C1, as one byte":              {"a\x9b2Jb", "a?2Jb"},
		"C1, as a character":           {"a\u009b2Jb\u009d0;x\u009cc", "a?2Jb?0;x?c"},
		"bell, backspace, shifts":      {"a\x07\x08\x0e\x0f\x05b", "ab"},
		"a string that never ends":     {"a\x1b]0;" + strings.Repeat("x", 1000), "a"},
		"one that is broken off":       {"a\x1b]0;x\x18b\x1b[12\x1ac", "abc"},
		"character sets":               {"a\x1b(0b\x1b#8c\x1b7d\x1bce", "abcde"},
		"broken characters":            {"a\xc3(\xff\xe6\x97b", "a?(??b"},
		"an override of the direction": {"a\u202eb\u2067c\u200f", `a\u202eb\u2067c\u200f`},
		"a hidden tag, an odd line":    {"a\U000e0041\u2028b", `a\U000e0041\u2028b`},
		"joiners of text":              {"می\u200cخواهم 👩\u200d💻", "می\u200cخواهم 👩\u200d💻"},
		"an endless colour":            {"a\x1b[" + strings.Repeat("1;", 500) + "mb", "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 1 << 20} { // cut anywhere
				var out bytes.Buffer
				w := &termFilter{w: &out}
				for in := []byte(c.in); len(in) > 0; {
					n := min(size, len(in))
					_, err := w.Write(in[:n])
					require.NoError(t, err)
					in = in[n:]
				}
				require.Equal(t, c.out, out.String())
			}
		})
	}
}

func TestOutputForAFileHasNoEscapes(t *testing.T) {
	var out bytes.Buffer
	_, err := (&termFilter{w: &out, plain: true}).Write([]byte("\x1b[1;31mred\x1b[0m \x1b]0;t\x07x\x1b[2J\n"))
	require.NoError(t, err)
	require.Equal(t, "red x\n", out.String())
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;:]*m")

func FuzzTerminalFilter(f *testing.F) {
	f.Add([]byte("a\x1b[1mb\x1b]0;x\x07"))
	f.Add([]byte("\u009b1m\xff\x1b\x1b["))
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		_, err := (&termFilter{w: &out}).Write(b)
		require.NoError(t, err)
		rest := sgr.ReplaceAllString(out.String(), "")
		for _, r := range rest {
			require.True(t, r >= ' ' && r != 0x7f && (r < 0x80 || r > 0x9f) && !unicode.Is(unicode.Bidi_Control, r) || r == '\n' || r == '\r' || r == '\t', "%q", r)
		}
	})
}

func TestAPatchOnATerminalHidesNothing(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, copyEscaped(&out, strings.NewReader("+a\x1b[8mhidden\x1b[0m\r\n+"+strings.Repeat("x", 100_000)+"\n-\x1b]0;t\x07")))
	require.NotContains(t, out.String(), "\x1b")
	require.Contains(t, out.String(), `+a\x1b[8mhidden\x1b[0m\x0d`+"\n+xxx")
	require.Equal(t, 2, strings.Count(out.String(), "\n"))
}
