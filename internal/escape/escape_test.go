package escape

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestText(t *testing.T) {
	for s, want := range map[string]string{
		"":              "",
		"plain ü €":     "plain ü €",
		"a\x1b[31mb":    `a\x1b[31mb`,
		"a\nb":          `a\x0ab`,
		"\xff\x80a":     `\xff\x80a`,
		"\u202eevil":    `\u202eevil`,
		"\ufffd":        "\ufffd", // the character itself is valid
		"tag\U000e0041": `tag\U000e0041`,
	} {
		require.Equal(t, want, Text(s, unicode.IsPrint), "%q", s)
	}
	require.Equal(t, "a\nb", Text("a\nb", func(r rune) bool { return r == '\n' || unicode.IsPrint(r) }))
}

func TestSpaces(t *testing.T) {
	for s, want := range map[string]string{
		"":                                   "",
		"two words":                          "two words",
		"\u00ab\u00a0mot\u202f\u00bb\u3000x": "\u00ab mot \u00bb x",
		"tab\tand\nline":                     "tab\tand\nline",
		"\u2028\u200b\xa0":                   "\u2028\u200b\xa0", // no spaces: an end of a line, a format character, no UTF-8
	} {
		require.Equal(t, want, Spaces(s), "%q", s)
	}
}

func TestPropertyOnlyWhatIsKeptIsShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		out := Text(s, unicode.IsPrint)
		require.True(t, utf8.ValidString(out))
		for _, r := range out {
			require.True(t, unicode.IsPrint(r), "%q", r)
		}
		require.Equal(t, out, Text(out, unicode.IsPrint), "nothing is escaped twice")
	})
}
