package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestApprovals(t *testing.T) {
	c, err := Parse("")
	require.NoError(t, err)
	require.Empty(t, c.Approvals.Notify)
	require.Equal(t, 5*time.Second, time.Duration(c.Approvals.NotifyPause))
	c, err = Parse("[approvals]\nnotify = [\"/usr/bin/logger\", \"--tag\", \"polis\"]\nnotify_pause = \"1m\"\n")
	require.NoError(t, err)
	require.Equal(t, []string{"/usr/bin/logger", "--tag", "polis"}, c.Approvals.Notify)
	for text, want := range map[string]string{
		`notify = ["logger"]`:                                   `approvals.notify = "logger": must begin with the clean absolute path`,
		`notify = ["/usr/../bin/logger"]`:                       "must begin with the clean absolute path",
		`notify = [""]`:                                         "must begin with the clean absolute path",
		`notify = ["/bin/x", "a\u0000b"]`:                       "without NUL",
		`notify = ["/bin/x"` + strings.Repeat(`,"y"`, 64) + `]`: "at most 64 words",
		`notify_pause = "-1s"`:                                  `approvals.notify_pause = "-1s": must be from 0s to 24h`,
		`notify_timeout = "999ms"`:                              `approvals.notify_timeout = "999ms": must be from 1s to 10m`,
		`tell = "x"`:                                            "unknown key",
	} {
		_, err := Parse("[approvals]\n" + text + "\n")
		require.ErrorContains(t, err, want, text)
	}
}
