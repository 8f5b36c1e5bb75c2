package glob_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/fusefs/policy/glob"
)

func TestLiteralNamesTheFilesOfThatName(t *testing.T) {
	for source, want := range map[string]string{
		"secret[1]/":          `secret\[1\]/`,
		"app/[id]/**":         `app/\[id\]/**`,
		"app/[[...slug]]/*.?": `app/\[\[...slug\]\]/*.?`,
		`app/\[id\]/**`:       `app/\[id\]/**`,
		`a\\[b]`:              `a\\\[b\]`,
		"!keys/":              `\!keys/`,
		"a!b":                 "a!b",
		"src/**":              "src/**",
		"x]":                  `x\]`,
	} {
		require.Equal(t, want, glob.Literal(source), source)
	}
	for source, name := range map[string]string{"[id]": "[id]", "[[...slug]]": "[[...slug]]", "!keys": "!keys", "x]": "x]"} {
		p, err := glob.Compile(glob.Literal(source))
		require.NoError(t, err)
		require.True(t, p.Match(name, false), source)
	}
}

func TestIdleFindsARuleThatNegatesNothing(t *testing.T) {
	for _, c := range []struct {
		list []string
		idle int // -1: none
	}{
		{nil, -1},
		{[]string{"src/**"}, -1},
		{[]string{"!keys/"}, 0},
		{[]string{"src/**", "!keys/"}, -1}, // keys may be anywhere, below src too
		{[]string{"src/**", "!/keys/"}, 1},
		{[]string{"!/keys/", "/keys/"}, 0},
		{[]string{"**", "!keys/", "!/keys/a"}, -1},
		{[]string{"/a", "!/a/b", "!/c"}, 2},
		{[]string{`\!keys/`}, -1},
	} {
		list := make([]*glob.Pattern, 0, len(c.list))
		for _, s := range c.list {
			p, err := glob.Compile(s)
			require.NoError(t, err)
			list = append(list, p)
		}
		i, ok := glob.Idle(list)
		require.Equal(t, c.idle >= 0, ok, c.list)
		if ok {
			require.Equal(t, c.idle, i, c.list)
		}
	}
}

func TestBracketsReadsAClassAsAName(t *testing.T) {
	for source, want := range map[string]string{"app/[id]/**": `app/\[id\]/**`, "!app/[id]": `!app/\[id\]`, "!![a]": `!!\[a\]`, "src/*": "", `\[id\]`: ""} {
		p, err := glob.Compile(source)
		require.NoError(t, err)
		q := p.Brackets()
		if want == "" {
			require.Nil(t, q, source)
			continue
		}
		require.NotNil(t, q, source)
		require.Equal(t, want, q.String())
	}
	p, err := glob.Compile("!![a]")
	require.NoError(t, err)
	require.True(t, p.Brackets().Match("![a]", false))
}
