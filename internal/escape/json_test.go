package escape

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"testing/iotest"
	"unicode"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		`{"a":"plain ü €"}`:               `{"a":"plain ü €"}`,
		"{\n  \"a\": \"\u009b2J\x7f\"\n}": "{\n  \"a\": \"\\u009b2J\\u007f\"\n}",
		"\"\u202e\"":                      `"\u202e"`,
		"\"\U000e0041\"":                  `"\udb40\udc41"`,
		"\"\xff\"":                        `"\ufffd"`,
		"\"\ufffd\"":                      "\"\ufffd\"",
	} {
		require.Equal(t, want, string(JSON([]byte(text))), "%q", text)
	}
}

func TestPropertyJSONKeepsItsValues(t *testing.T) {
	special := rapid.SampledFrom([]rune{0x7f, 0x80, 0x9b, 0xad, 0x202e, 0x2066, 0x2028, 0xfeff, 0xfffd, 0xe0041, 0x1f600, 'ü', '"', '\\', 0, 0x1b, '\n'})
	rapid.Check(t, func(t *rapid.T) {
		value := map[string]string{rapid.StringOf(special).Draw(t, "name"): rapid.OneOf(rapid.String(), rapid.StringOf(special)).Draw(t, "text")}
		text, err := json.MarshalIndent(value, "", "  ")
		require.NoError(t, err)
		out := JSON(text)
		for _, r := range string(out) {
			require.True(t, r == '\n' || unicode.IsPrint(r), "%U", r)
		}
		var got map[string]string
		require.NoError(t, json.Unmarshal(out, &got))
		require.Equal(t, value, got)
		var parts bytes.Buffer
		_, err = io.Copy(struct{ io.Writer }{JSONLines(&parts)}, iotest.OneByteReader(bytes.NewReader(text)))
		require.NoError(t, err)
		require.Equal(t, string(out), parts.String())
	})
}
