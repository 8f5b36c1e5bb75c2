package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNotify(t *testing.T) {
	c, err := Parse("")
	require.NoError(t, err)
	require.Equal(t, NotifyKinds(), c.Notify.Events)
	c, err = Parse("[notify]\nevents = [\"check\"]\ncommand = [\"/usr/bin/logger\"]\nwebhook = \"unix:/run/n.sock\"\ndesktop = true\n")
	require.NoError(t, err)
	require.Equal(t, []string{"/usr/bin/logger"}, c.Notify.Command)
	require.True(t, c.Notify.Desktop)
	for text, want := range map[string]string{
		`events = ["tasks"]`:             `notify.events: "tasks" is no kind of message: must be one of question, task`,
		`command = ["logger"]`:           "must begin with the clean absolute path",
		`webhook = "http://example.org"`: `notify.webhook = "http://example.org"`,
		`pause = "-1s"`:                  "must be from 0s to 24h",
		`timeout = "1ms"`:                "must be from 1s to 10m",
		`desktop = "alice"`:              "desktop",
		`desk = true`:                    "unknown key",
	} {
		_, err := Parse("[notify]\n" + text + "\n")
		require.ErrorContains(t, err, want, text)
	}
}
