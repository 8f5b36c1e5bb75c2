package main

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestAFollowedTaskShowsItsQuestionAndTakesTheAnswerByKey: and its output continues after it.
func TestAFollowedTaskShowsItsQuestionAndTakesTheAnswerByKey(t *testing.T) {
	f := newAsking(t, false)
	c := startOnTerminal(t, f.fake, "run", "claude", "make it")
	c.sees("question claude.aaaaaaaa of agent claude")
	c.sees("[s]kip\r\n")
	require.NotContains(t, c.text(), "[q]uit")
	require.NotContains(t, c.text(), "gemini.bbbbbbbb", "it is another agent's")
	require.Contains(t, c.text(), `sh\x1b[2K (pid 42 on the host)`)
	require.False(t, c.raw() && c.modes().Lflag&syscall.ISIG == 0, "Ctrl-C must be a signal")
	c.types("d")
	c.sees("reason for the agent")
	c.types("nk\x7fo\r")
	c.sees("denied claude.aaaaaaaa: no")
	require.Contains(t, strings.Join(f.log(), "\n"), `{"verdict":"deny","scope":"once","reason":"no"}`)
	f.endTask()
	require.Zero(t, c.ends())
	require.Contains(t, c.text(), "claude.3")
	require.Equal(t, c.before, c.modes())
}

// TestAQuestionThatAnotherPersonAnswersGoesAway, with a line that says by whom.
func TestAQuestionThatAnotherPersonAnswersGoesAway(t *testing.T) {
	f := newAsking(t, false)
	c := startOnTerminal(t, f.fake, "run", "--wait", "claude", "make it")
	c.sees("[s]kip\r\n")
	f.answered("claude.aaaaaaaa", api.Answer{Verdict: api.VerdictApprove, By: "user:4294967294"})
	c.sees("question claude.aaaaaaaa was answered by user:4294967294: approve")
	f.endTask()
	require.Zero(t, c.ends())
	require.Equal(t, c.before, c.modes())
}

// TestASkippedQuestionStaysOpen: with a line that names the command.
func TestASkippedQuestionStaysOpen(t *testing.T) {
	f := newAsking(t, false)
	c := startOnTerminal(t, f.fake, "run", "claude", "make it")
	c.sees("[s]kip\r\n")
	c.types("s")
	c.sees("question claude.aaaaaaaa waits: polisctl approvals approve claude.aaaaaaaa")
	f.endTask()
	require.Zero(t, c.ends())
	require.NotContains(t, strings.Join(f.log(), "\n"), "verdict")
}

// TestCtrlCIsNoAnswerToAQuestion: it does what it does without one.
func TestCtrlCIsNoAnswerToAQuestion(t *testing.T) {
	for _, args := range [][]string{{"run", "claude", "make it"}, {"run", "--wait", "claude", "make it"}} {
		f := newAsking(t, false)
		c := startOnTerminal(t, f.fake, args...)
		c.sees("[s]kip\r\n")
		c.types("\x03")
		c.sees("Stop task claude.3? y stops it, anything else leaves it running: ")
		require.Equal(t, c.before, c.modes(), "a line is read")
		c.types("a\n")
		require.Equal(t, 130, c.ends())
		c.sees("task claude.3 continues")
		require.NotContains(t, strings.Join(f.log(), "\n"), "verdict")
		require.Equal(t, c.before, c.modes())
	}
	f := newAsking(t, false)
	c := startOnTerminal(t, f.fake, "run", "claude", "make it")
	c.sees("[s]kip\r\n")
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 128+15, c.ends())
	require.Equal(t, c.before, c.modes())
}

// TestCtrlZStopsPolisctlAtAQuestion: also at a reason, with the terminal as it was; the question is shown again.
func TestCtrlZStopsPolisctlAtAQuestion(t *testing.T) {
	for _, key := range []string{"", "d"} {
		f := newAsking(t, false)
		c := startOnTerminal(t, f.fake, "run", "claude", "make it")
		c.sees("[s]kip\r\n")
		if key != "" {
			c.types(key)
			c.sees("reason for the agent")
		}
		for n := range 2 {
			c.types("\x1a")
			require.Eventually(t, func() bool {
				var ws syscall.WaitStatus
				_, err := syscall.Wait4(c.cmd.Process.Pid, &ws, syscall.WUNTRACED|syscall.WNOHANG, nil)
				return err == nil && ws.Stopped()
			}, 20*time.Second, 5*time.Millisecond, "it must stop")
			require.Equal(t, c.before, c.modes())
			require.NoError(t, c.cmd.Process.Signal(syscall.SIGCONT))
			require.Eventually(t, func() bool { return strings.Count(c.text(), "[s]kip\r\n") == n+2 }, 20*time.Second, 5*time.Millisecond)
		}
		c.types("a")
		c.sees("approved claude.aaaaaaaa")
		f.endTask()
		require.Zero(t, c.ends())
		require.Equal(t, c.before, c.modes())
	}
}

// TestCtrlBackslashQuitsAtAQuestion, with the terminal as it was.
func TestCtrlBackslashQuitsAtAQuestion(t *testing.T) {
	for _, key := range []string{"", "d"} {
		f := newAsking(t, false)
		c := startOnTerminal(t, f.fake, "run", "claude", "make it")
		c.sees("[s]kip\r\n")
		if key != "" {
			c.types(key)
			c.sees("reason for the agent")
		}
		c.types("\x1c")
		require.Equal(t, 2, c.ends(), "the status of a Go program")
		require.Equal(t, c.before, c.modes())
	}
}

// TestAQuestionWithoutATerminalIsOneLine, on standard error, that names the command; and none with --json.
func TestAQuestionWithoutATerminalIsOneLine(t *testing.T) {
	for _, args := range [][]string{{"run", "--wait", "claude", "make it"}, {"run", "--json", "--wait", "claude", "make it"}, {"run", "-q", "--wait", "claude", "make it"}} {
		f := newAsking(t, true)
		b := startInBackground(t, f.socket, args...)
		if args[1] == "--wait" {
			b.sees("claude.dddddddd")
			f.listed(t, 3)
		}
		f.endTask()
		var exit *exec.ExitError
		require.False(t, errors.As(b.cmd.Wait(), &exit), b.text())
		if args[1] != "--wait" {
			require.NotContains(t, b.text(), "aaaaaaaa")
			require.NotContains(t, strings.Join(f.log(), "\n"), "/v1/approvals")
			continue
		}
		require.Equal(t, 1, strings.Count(b.text(), "agent claude asks (write): a\\x1b[2Jb; polisctl approvals show claude.dddddddd shows it, polisctl approvals approve claude.dddddddd or deny claude.dddddddd answers it\n"), b.text())
		require.Equal(t, 1, strings.Count(b.text(), "approvals show claude.aaaaaaaa"), b.text())
	}
}
