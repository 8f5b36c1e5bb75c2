package githooks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheLastEntryCountsAndPolisOwnDoNot(t *testing.T) {
	for _, c := range []struct {
		fields []string
		want   Settings
	}{
		{nil, Settings{}},
		{[]string{"command", "commit.gpgsign\nfalse", "command", "core.hookspath\n/dev/null"}, Settings{}},
		{[]string{"global", "commit.gpgsign\ntrue", "local", "commit.gpgsign\nno"}, Settings{}},
		{[]string{"system", "commit.gpgsign\noff", "global", "commit.gpgsign"}, Settings{Signs: true}},
		{[]string{"global", "commit.gpgsign\n1"}, Settings{Signs: true}},
		{[]string{"global", "commit.gpgsign\n0"}, Settings{}},
		{[]string{"global", "commit.gpgsign\n"}, Settings{}},
		{[]string{"global", "core.hookspath\n~/hooks", "command", "core.hookspath\n/dev/null"}, Settings{HooksPath: "/home/ann/hooks"}},
		{[]string{"global", "core.hookspath\n~/hooks", "local", "core.hookspath\n.husky/_"}, Settings{HooksPath: ".husky/_"}},
		{[]string{"odd"}, Settings{}},
	} {
		require.Equal(t, c.want, parseSettings(c.fields, "/home/ann"), "%q", c.fields)
	}
}
