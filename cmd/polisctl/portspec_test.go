package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPortSpecs(t *testing.T) {
	for text, want := range map[string]portSpec{
		"3000": {"tcp", 3000, 3000}, "3000/tcp": {"tcp", 3000, 3000}, "53/udp": {"udp", 53, 53},
		"8000-8010": {"tcp", 8000, 8010}, "8000-8000/udp": {"udp", 8000, 8000}, "65280-65535": {"tcp", 65280, 65535},
	} {
		got, err := parsePortSpec("port", text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "0", "65536", "080", "+80", "-1", "80-", "-80", "80-79", "1-65535", "80/", "80/UDP", "80/udp/tcp", "80 ", "8 0", "80-90-95", "０"} {
		_, err := parsePortSpec("port", text)
		require.Error(t, err, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.IntRange(1, 65535).Draw(t, "first")
		s := portSpec{rapid.SampledFrom([]string{"tcp", "udp"}).Draw(t, "protocol"), first, min(65535, first+rapid.IntRange(0, maxRange-1).Draw(t, "more"))}
		got, err := parsePortSpec("port", s.String())
		require.NoError(t, err)
		require.Equal(t, s, got)
	})
}

func FuzzPortSpec(f *testing.F) {
	for _, s := range []string{"3000", "8000-8010/udp", "1-2-3", "80/", "\x1b[31m", strings.Repeat("9", 1000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parsePortSpec("port", text)
		if err != nil {
			require.Equal(t, err.Error(), clean(err.Error()), "nothing of it reaches the terminal")
			return
		}
		require.True(t, 1 <= s.first && s.first <= s.last && s.last <= 65535 && s.count() <= maxRange)
		again, err := parsePortSpec("port", s.String())
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}
