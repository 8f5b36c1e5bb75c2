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

// quits types q until polisctl has ended, and returns its status: the key is dropped, too, until the next question is shown.
func (c *onTerminal) quits() int {
	c.t.Helper()
	ended, typing := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(typing)
		for {
			_, _ = c.tty.WriteString("q") // the program may be over
			select {
			case <-ended:
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
	defer func() { close(ended); <-typing }()
	return c.ends()
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
	require.Zero(t, c.quits())
	require.Equal(t, c.before, c.modes())
}

// TestAnEscapeSequenceIsNoAnswer: Alt with a letter, and arrow and function keys, whose last byte is a letter that answers.
func TestAnEscapeSequenceIsNoAnswer(t *testing.T) {
	sequences := []string{"\x1ba", "\x1b[d", "\x1bOx", "\x1b[23;5t", "\x1b[200~a\x1b[201~"}
	f := newFake(t)
	c := startOnTerminal(t, f, "approvals", "watch")
	c.sees("[q]uit")
	for _, s := range sequences {
		c.types(s)
	}
	c.press("s", "question gemini.bbbbbbbb of agent gemini")
	c.press("d", "reason for the agent")
	c.types("n\x1b[D")
	time.Sleep(3 * escapeTime)
	c.types("o\r")
	c.sees("was answered by user:7: deny")
	require.Equal(t, 1, strings.Count(strings.Join(f.log(), "\n"), "verdict"))
	require.Contains(t, strings.Join(f.log(), "\n"), `"reason":"no"`, "an arrow key is not Escape")
	require.Zero(t, c.quits())

	g := newAsking(t, false)
	c = startOnTerminal(t, g.fake, "run", "claude", "make it")
	c.sees("[s]kip\r\n")
	for _, s := range sequences {
		c.types(s)
		time.Sleep(3 * escapeTime)
	}
	c.press("s", "question claude.aaaaaaaa waits")
	g.endTask()
	require.Zero(t, c.ends())
	require.NotContains(t, strings.Join(g.log(), "\n"), "verdict")
}

// TestEscapeGoesBackFromAReason: to the question, which stays open.
func TestEscapeGoesBackFromAReason(t *testing.T) {
	f := newFake(t)
	c := startOnTerminal(t, f, "approvals", "watch")
	c.sees("[q]uit")
	c.press("d", "reason for the agent")
	c.types("no\x1b")
	c.sees("back): no\r\n")
	c.press("s", "question gemini.bbbbbbbb of agent gemini")
	require.Zero(t, c.quits())
	require.NotContains(t, strings.Join(f.log(), "\n"), "verdict")
}

// TestAReasonIsOfCharacters: they are shown as they are typed, and removed whole.
func TestAReasonIsOfCharacters(t *testing.T) {
	f := newFake(t)
	c := startOnTerminal(t, f, "approvals", "watch")
	c.sees("[q]uit")
	c.press("d", "reason for the agent")
	c.types("\x7fné\x7fon: 道\x7fé\xff\xc2\x9b\xc3!\r")
	c.sees("back): né\b \bon: 道\b \b\b \bé!\r\n")
	c.sees("denied claude.aaaaaaaa: non: é!")
	require.Contains(t, strings.Join(f.log(), "\n"), `"reason":"non: é!"`)
	require.Zero(t, c.quits())
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
