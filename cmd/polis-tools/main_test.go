package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNameSelectsTheProgram(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
	}{
		{[]string{"/usr/lib/polis/polis-tui", "--version"}, 0},
		{[]string{"polis-tui", "surplus"}, 2},
		{[]string{"/run/polis/bin/polis-adapter"}, 2}, // it needs the name of an adapter
		{[]string{"polis-adapter", "unknown"}, 2},
		{[]string{"polis-tools", "polis-tui"}, 2},
		{nil, 2},
	} {
		require.Equal(t, c.status, run(c.args), c.args)
	}
}
