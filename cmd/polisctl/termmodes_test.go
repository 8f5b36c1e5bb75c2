package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATerminalIsLeftAsAShellExpectsIt(t *testing.T) {
	for name, c := range map[string]struct{ in, away, over string }{
		"nothing was changed":     {"text\r\n", "\r\n\x1b[J\x1b[0m", ""},
		"the alternate screen":    {"\x1b[?1049h\x1b[Hx", "\x1b[?1049l\x1b[0m", "\x1b[?1049l\x1b[0m"},
		"the program left it":     {"\x1b[?1049h\x1b[?1049l", "\r\n\x1b[J\x1b[0m", ""},
		"mouse, paste and cursor": {"\x1b[?1000;1006h\x1b[?2004h\x1b[?25l", "\x1b[?25h\x1b[?1000l\x1b[?1006l\x1b[?2004l\r\n\x1b[J\x1b[0m", "\x1b[?25h\x1b[?1000l\x1b[?1006l\x1b[?2004l\x1b[0m"},
		"the keyboard":            {"\x1b[>1u\x1b[>4;2m", "\x1b[<1u\x1b[>4m\r\n\x1b[J\x1b[0m", "\x1b[<1u\x1b[>4m\x1b[0m"},
		"margins":                 {"\x1b[3;5r", "\x1b7\x1b[r\x1b8\x1b[4l\x1b(B\x1b)B\x0f\x1b>\x1b[0 q\r\n\x1b[J\x1b[0m", "\x1b7\x1b[r\x1b8\x1b[4l\x1b(B\x1b)B\x0f\x1b>\x1b[0 q\x1b[0m"},
		"a sequence in a string":  {"\x1b]0;\x1b[?1049h\x07", "\r\n\x1b[J\x1b[0m", ""},
		"a title that never ends": {"\x1b]0;x", "\x18\r\n\x1b[J\x1b[0m", "\x18\x1b[0m"},
		"it was reset":            {"\x1b[?1049h\x1b[?25l\x1bc", "\r\n\x1b[J\x1b[0m", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for away, want := range map[bool]string{true: c.away, false: c.over} {
				for _, size := range []int{1, 3, 1000} {
					var out bytes.Buffer
					m := &termModes{w: &out}
					for in := []byte(c.in); len(in) > 0; {
						n := min(size, len(in))
						_, err := m.Write(in[:n])
						require.NoError(t, err)
						in = in[n:]
					}
					require.True(t, strings.HasPrefix(out.String(), c.in))
					out.Reset()
					m.reset(away)
					require.Equal(t, want, out.String())
					out.Reset()
					m.reset(false)
					require.Empty(t, out.String(), "once is enough")
				}
			}
		})
	}
}
