package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// press types a key until its effect shows: keys are dropped until a question is on the screen.
func (c *onTerminal) press(key, effect string) {
	c.t.Helper()
	n := strings.Count(c.text(), effect)
	require.Eventually(c.t, func() bool {
		c.types(key)
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if strings.Count(c.text(), effect) > n {
				return true
			}
		}
		return false
	}, 30*time.Second, 10*time.Millisecond, "waiting for %q after key %q", effect, key)
}

func TestQuestionsAreAnsweredByOneKeyEach(t *testing.T) {
	f := newFake(t)
	c := startOnTerminal(t, f, "approvals", "watch")
	c.sees("question claude.aaaaaaaa of agent claude")
	c.sees("[q]uit")
	require.Contains(t, c.text(), `sh\x1b[2K (pid 42 on the host)`)
	require.Regexp(t, `    \x1b\[32m\+b\\x1b\[2J\x1b\[0m`, c.text())
	require.Contains(t, c.text(), "\a")
	require.True(t, c.raw())
	c.press("d", "reason for the agent")
	c.types("nk\x7fo\r")
	c.sees("denied claude.aaaaaaaa")
	require.Contains(t, strings.Join(f.log(), "\n"), `{"verdict":"deny","scope":"once","reason":"no"}`)
	c.press("s", "question gemini.bbbbbbbb of agent gemini")
	c.press("g", "was answered by user:7: deny")
	require.Contains(t, strings.Join(f.log(), "\n"), `{"verdict":"approve","scope":"agent"}`)
	c.types("q")
	require.Zero(t, c.ends())
	require.Equal(t, c.before, c.modes())
}

func TestQuestionsArePrintedWithoutATerminal(t *testing.T) {
	f := newFake(t)
	c := startOnTerminal(t, f, "approvals", "watch", "--json")
	c.sees(`"id":"gemini.bbbbbbbb"`)
	require.Equal(t, 1, strings.Count(c.text(), `"id":"claude.aaaaaaaa"`))
	require.Contains(t, c.text(), `"diff_hidden":3`)
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, 130, c.ends())
}
