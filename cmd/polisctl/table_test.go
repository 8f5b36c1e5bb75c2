package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// anyText has words of ordinary, wide, combining and unprintable characters.
func anyText(t *rapid.T, label string) string {
	return strings.Join(rapid.SliceOfN(rapid.StringOfN(rapid.RuneFrom([]rune{'a', '-', '/', '界', 'é', '\u0301', '\u00a0', '\x1b', '🙂', 'W'}), 0, 30, -1), 0, 8).Draw(t, label), " ")
}

func TestPropertyTablesFitTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		heads := append([]string{"NAME"}, rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"STATUS", "TASK", "BRANCH", "WORKSPACE", "PORTS", "AGE", "PATH", "WHAT", "BY"}), 0, 6, rapid.ID).Draw(t, "heads")...)
		rows := make([][]cell, rapid.IntRange(1, 4).Draw(t, "rows"))
		for i := range rows {
			rows[i] = []cell{{text: fmt.Sprintf("agent-%d", i)}}
			for range heads[1:] {
				rows[i] = append(rows[i], cell{text: anyText(t, "cell")})
			}
		}
		var b bytes.Buffer
		p := &page{w: &b, width: rapid.IntRange(72, 200).Draw(t, "width")}
		p.table("", heads, rows)
		p.line("%s", anyText(t, "note"))
		p.end()
		for line := range strings.Lines(b.String()) {
			require.LessOrEqual(t, ansi.StringWidth(strings.TrimSuffix(line, "\n")), p.width, "%q", line)
		}
		for i := range rows {
			require.Contains(t, b.String(), fmt.Sprintf("agent-%d", i), "a name is never cut")
		}
		require.Contains(t, b.String(), "\nagent-0", "rows have the first column")
	})
}

func TestPropertyWrappedLinesHaveAllWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := cleanText(anyText(t, "line"))
		p := &page{width: rapid.IntRange(0, 100).Draw(t, "width"), list: rapid.Bool().Draw(t, "list")}
		got := p.wrapped(line, rapid.IntRange(0, 40).Draw(t, "indent"))
		require.Equal(t, strings.Join(strings.Fields(line), ""), strings.Join(strings.Fields(got), ""))
		if !p.list {
			require.Equal(t, strings.Fields(line), strings.Fields(got), "no word is broken")
		}
		for i, part := range strings.Split(got, "\n") {
			require.True(t, i == 0 || strings.HasPrefix(part, "  "), "further lines are indented: %q", part)
		}
	})
}

func TestTablesOnNoTerminalAreWhole(t *testing.T) {
	var b bytes.Buffer
	p := &page{w: &b}
	long := strings.Repeat("word ", 60) + "end"
	p.table("", []string{"NAME", "TASK", "WORKSPACE"}, [][]cell{{{text: "ann"}, {text: long}, {text: "webshop"}}})
	p.line("%s", long)
	p.end()
	require.Equal(t, 2, strings.Count(b.String(), long))
	require.Equal(t, 3, strings.Count(b.String(), "\n"), "no note")
	require.Contains(t, b.String(), "webshop")
}

func TestKeysOfTheAnswerScreenFit(t *testing.T) {
	require.Less(t, ansi.StringWidth(answerKeys), 80)
	for _, key := range "atgrdxsq" {
		require.Contains(t, answerKeys, "["+string(key)+"]")
	}
}
