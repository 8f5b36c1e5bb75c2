package approval

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

// A name that was put together from what Escape writes must not read as the escaped one.
func TestWhatIsShownStandsForOneTextOnly(t *testing.T) {
	for text, want := range map[string]string{
		`a\x1b`:       `a\\x1b`,
		"a\x1b":       `a\x1b`,
		`a\x00b`:      `a\\x00b`,
		"a\x00b":      `a\x00b`,
		`\u202e`:      `\\u202e`,
		`echo a\n`:    `echo a\\n`,
		"\\\n":        `\\\n`,
		`\\n`:         `\\\\n`,
		"\\\xff":      `\\\xff`,
		`grep 'a\.b'`: `grep 'a\.b'`, // nothing that Escape writes begins so
		`a\`:          `a\`,
	} {
		require.Equal(t, want, Escape(text), "%q", text)
	}
}

// unescape is the text that Escape made into s.
func unescape(t require.TestingT, s string) string {
	var b strings.Builder
	number := func(from, digits int) int64 {
		n, err := strconv.ParseInt(s[from:from+digits], 16, 32)
		require.NoError(t, err, s)
		return n
	}
	for i := 0; i < len(s); i++ {
		next := byte(0)
		if i+1 < len(s) {
			next = s[i+1]
		}
		switch {
		case s[i] != '\\':
			b.WriteByte(s[i])
		case next == '\\':
			b.WriteByte('\\')
			i++
		case next == 'n':
			b.WriteByte('\n')
			i++
		case next == 't':
			b.WriteByte('\t')
			i++
		case next == 'x':
			b.WriteByte(byte(number(i+2, 2)))
			i += 3
		case next == 'u':
			b.WriteRune(rune(number(i+2, 4)))
			i += 5
		case next == 'U':
			b.WriteRune(rune(number(i+2, 8)))
			i += 9
		default:
			b.WriteByte('\\')
		}
	}
	return b.String()
}

// Feature: multi-agent-orchestration, Property 2: What a person sees stands for one text only
func TestPropertyEscapingLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.OneOf(rapid.SampledFrom([]string{`\`, `\\`, "x", "00", "1b", "n", "t", "u202e", "U000e0001", "\n", "\t", "\x1b", "\xff", "\x00", "\u202e", "\U000e0001", "é", "\ufffd", " "}), rapid.String())).Draw(t, "parts")
		text := strings.Join(parts, "")
		shown := Escape(text)
		require.Equal(t, text, unescape(t, shown), "%q", shown)
		require.True(t, utf8.ValidString(shown))
		for _, r := range shown {
			require.True(t, visible(r), "%q", shown)
		}
	})
}

// In JSON, bytes that are no UTF-8 become U+FFFD, as which another name may begin.
func TestTextThatIsNotUTF8IsNotRemembered(t *testing.T) {
	q, changes := newQueue()
	q.Begin("claude.1")
	c := ask(t, q, Question{Kind: api.ApprovalWrite, Text: "a\xff", Task: "claude.1"})
	require.Equal(t, `a\xff`, q.Open()[0].What)
	require.Empty(t, q.Open()[0].Remember)
	for _, scope := range []api.AnswerScope{api.ScopeTask, api.ScopeAgent, api.ScopeRole} {
		a := approve(scope)
		a.Role = "worker"
		_, err := q.Answer(c.ID(), a)
		require.Equal(t, api.CodeBadRequest, api.CodeOf(err), scope)
		require.ErrorContains(t, err, "is not UTF-8")
		require.False(t, answered(c))
	}
	_, err := q.Answer(c.ID(), approve(api.ScopeOnce))
	require.NoError(t, err)
	require.True(t, answered(c))
	require.Nil(t, (*changes)[len(*changes)-1].Rule)
}
