package job

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestLastLines(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		lines int
		most  int64
		want  string
		cut   bool
	}{
		"all":                     {"a\nb\nc\n", 0, 100, "a\nb\nc\n", false},
		"as many as there are":    {"a\nb\nc\n", 3, 100, "a\nb\nc\n", false},
		"fewer":                   {"a\nb\nc\n", 2, 100, "b\nc\n", true},
		"without a line end":      {"a\nb\nc", 1, 100, "c", true},
		"of empty lines":          {"\n\n\n", 2, 100, "\n\n", true},
		"nothing":                 {"", 5, 100, "", false},
		"a line that is cut off":  {"abcdef\nb\nc\n", 9, 6, "b\nc\n", true},
		"one line that is longer": {"abcdef", 9, 3, "def", true},
		"no text":                 {"a\xff\n", 9, 10, "a?\n", false},
	} {
		got, cut, err := LastLines(strings.NewReader(c.text), int64(len(c.text)), c.lines, c.most)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.cut, cut, name)
	}
}

func TestLastLinesAreAnEndOfTheText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab\n"))).Draw(rt, "text")
		lines, most := rapid.IntRange(0, 5).Draw(rt, "lines"), rapid.Int64Range(1, 20).Draw(rt, "most")
		got, cut, err := LastLines(strings.NewReader(text), int64(len(text)), lines, most)
		if err != nil || !strings.HasSuffix(text, got) || cut != (len(got) < len(text)) || int64(len(got)) > most {
			rt.Fatalf("%q, %d, %d: %q %v %v", text, lines, most, got, cut, err)
		}
		if n := strings.Count(strings.TrimSuffix(got, "\n"), "\n") + 1; lines > 0 && got != "" && n > lines {
			rt.Fatalf("%q has %d lines", got, n)
		}
	})
}
