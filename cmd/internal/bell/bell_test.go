package bell

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestATerminalGetsTheSequenceThatItKnows(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{nil, "\a"},
		{map[string]string{"TERM": "linux"}, "\a"},
		{map[string]string{"TERM": "dumb"}, "\a"},
		{map[string]string{"TERM": "tmux-256color"}, "\a"},
		{map[string]string{"TERM": "xterm-256color"}, "\a\x1b]9;polis: agent a asks\x1b\\"},
		{map[string]string{"TERM": "xterm-256color", "VTE_VERSION": "7200"}, "\a\x1b]777;notify;polis;agent a asks\x1b\\"},
		{map[string]string{"TERM": "foot"}, "\a\x1b]777;notify;polis;agent a asks\x1b\\"},
	} {
		b := Bell{Getenv: func(name string) string { return c.env[name] }}
		require.Equal(t, c.want, b.Ring(now, "agent a\x1b\x07; asks"), c.env)
	}
}

func TestItRingsOnceInAWhile(t *testing.T) {
	b, now := Bell{}, time.Now()
	require.Equal(t, "\a", b.Ring(now, "x"))
	require.Empty(t, b.Ring(now.Add(Pause-1), "x"))
	require.Equal(t, "\a", b.Ring(now.Add(Pause), "x"))
}
