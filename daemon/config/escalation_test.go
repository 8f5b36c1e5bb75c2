package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestEscalation(t *testing.T) {
	c, err := Parse("[patrol.escalation]\ncommand = [\"/usr/bin/logger\"]\nwebhook = \"unix:/run/a.sock\"\njournal = \"crit\"\nagain = \"0s\"\n")
	require.NoError(t, err)
	require.Equal(t, []string{"/usr/bin/logger"}, c.Patrol.Escalation.Command)
	c, err = Parse("")
	require.NoError(t, err)
	require.Equal(t, defaultEscalation(), c.Patrol.Escalation)

	for text, says := range map[string]string{
		`command = ["logger"]`:             "patrol.escalation.command",
		`webhook = "http://192.0.2.1:1/"`:  "loopback",
		`journal = "loud"`:                 "patrol.escalation.journal",
		`again = "1s"`:                     "patrol.escalation.again",
		`pause = "-1s"`:                    "patrol.escalation.pause",
		`timeout = "1h"`:                   "patrol.escalation.timeout",
		`webhook = "https://127.0.0.1:1/"`: "patrol.escalation.webhook",
	} {
		_, err := Parse("[patrol.escalation]\n" + text + "\n")
		require.ErrorContains(t, err, says, text)
		require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err), text)
	}
}
