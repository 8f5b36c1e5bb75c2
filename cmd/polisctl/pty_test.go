package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// onTerminal is polisctl on a terminal of its own, of which it is the
// controlling process's leader.
type onTerminal struct {
	t   *testing.T
	cmd *exec.Cmd
	tty *os.File // the master
	sub *os.File // the terminal itself, kept open to look at its modes

	mu     sync.Mutex
	out    bytes.Buffer
	eof    chan struct{}
	before unix.Termios // the terminal's modes when polisctl started
}

func startOnTerminal(t *testing.T, f *fake, args ...string) *onTerminal {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	master, sub, err := pty.Open()
	require.NoError(t, err)
	require.NoError(t, pty.Setsize(master, &pty.Winsize{Rows: 30, Cols: 100}))
	c := &onTerminal{t: t, tty: master, sub: sub, eof: make(chan struct{})}
	c.cmd = &exec.Cmd{
		Path: self, Args: append([]string{"polisctl"}, args...),
		Env:   append(os.Environ(), "POLIS_SOCKET="+f.socket, "TERM=xterm-test", "NO_COLOR="+os.Getenv("POLIS_TEST_NO_COLOR"), "GORACE="+noRaceSleep),
		Stdin: sub, Stdout: sub, Stderr: sub,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true},
	}
	c.before = c.modes()
	require.NoError(t, c.cmd.Start())
	go func() {
		defer close(c.eof)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			c.mu.Lock()
			c.out.Write(buf[:n])
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
		sub.Close()
		master.Close()
		<-c.eof
	})
	return c
}

func (c *onTerminal) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.String()
}

func (c *onTerminal) sees(want string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return strings.Contains(c.text(), want) }, 20*time.Second, 5*time.Millisecond, "waiting for %q", want)
}

func (c *onTerminal) types(s string) {
	c.t.Helper()
	_, err := io.WriteString(c.tty, s)
	require.NoError(c.t, err)
}

// modes returns the terminal's modes as termios(3) has them.
func (c *onTerminal) modes() unix.Termios {
	c.t.Helper()
	m, err := unix.IoctlGetTermios(int(c.sub.Fd()), unix.TCGETS)
	require.NoError(c.t, err)
	return *m
}

func (c *onTerminal) raw() bool { return c.modes().Lflag&unix.ICANON == 0 }

// ends waits for polisctl and returns its status; -n if signal n killed it.
func (c *onTerminal) ends() int {
	c.t.Helper()
	done := make(chan error, 1)
	go func() { done <- c.cmd.Wait() }()
	select {
	case err := <-done:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			require.NoError(c.t, err)
		}
	case <-time.After(20 * time.Second):
		require.FailNow(c.t, "polisctl continues", "output: %q", c.text())
	}
	if ws := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		return -int(ws.Signal())
	}
	return c.cmd.ProcessState.ExitCode()
}

func TestExecOnTerminalIsRawAndRestored(t *testing.T) {
	c := startOnTerminal(t, newFake(t), "agents", "exec", "claude", "--", "sh", "-c",
		`test -t 0 && test -t 1 && test -t 2 && echo "term $TERM" && stty size; read l; echo "got $l"; exit 6`)
	before := c.before
	c.sees("term xterm-test\r\n30 100\r\n")
	require.True(t, c.raw(), "the terminal must be raw while the command has it")
	c.types("hello\r")
	c.sees("got hello\r\n")
	require.Equal(t, 6, c.ends())
	require.Equal(t, before, c.modes(), "the terminal must be as it was")
}

func TestKeysThatAreSignalsReachTheCommand(t *testing.T) {
	c := startOnTerminal(t, newFake(t), "agents", "exec", "claude", "sh", "-c", `trap 'echo got INT; exit 8' INT; echo ready; while :; do sleep 0.05; done`)
	c.sees("ready")
	c.types("\x03")
	c.sees("got INT")
	require.Equal(t, 8, c.ends())
}

func TestResizeReachesTheCommand(t *testing.T) {
	c := startOnTerminal(t, newFake(t), "agents", "exec", "claude", "sh", "-c", `trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done`)
	c.sees("ready")
	require.NoError(t, pty.Setsize(c.tty, &pty.Winsize{Rows: 51, Cols: 132}))
	c.sees("51 132")
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 128+15, c.ends())
}

func TestTerminalIsRestoredAfterSignals(t *testing.T) {
	for _, tc := range []struct {
		name    string
		sig     syscall.Signal
		command string
	}{
		{"command dies of it", syscall.SIGTERM, `echo ready; exec sleep 60`},
		{"command ignores it", syscall.SIGHUP, `trap '' HUP; echo ready; while :; do sleep 0.05; done`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := startOnTerminal(t, newFake(t), "agents", "exec", "claude", "sh", "-c", tc.command)
			before := c.before
			c.sees("ready")
			require.True(t, c.raw())
			require.NoError(t, c.cmd.Process.Signal(tc.sig))
			require.Equal(t, 128+int(tc.sig), c.ends())
			require.Equal(t, before, c.modes())
		})
	}
}

func TestTerminalIsRestoredAfterLostConnection(t *testing.T) {
	f := newFake(t)
	c := startOnTerminal(t, f, "agents", "exec", "claude", "break-protocol")
	require.Equal(t, 125, c.ends())
	require.False(t, c.raw())
	c.sees("connection to agent claude was lost")
}

func TestTerminalIsRestoredAfterPanic(t *testing.T) {
	master, sub, err := pty.Open()
	require.NoError(t, err)
	defer master.Close()
	defer sub.Close()
	before, err := unix.IoctlGetTermios(int(sub.Fd()), unix.TCGETS)
	require.NoError(t, err)
	raw, err := makeRaw(sub)
	require.NoError(t, err)
	require.PanicsWithValue(t, "boom", func() {
		defer raw.onPanic()
		panic("boom")
	})
	after, err := unix.IoctlGetTermios(int(sub.Fd()), unix.TCGETS)
	require.NoError(t, err)
	require.Equal(t, before, after)
	raw.restore() // a second time is nothing
	raw.again()   // and a restored terminal does not become raw again
	after, err = unix.IoctlGetTermios(int(sub.Fd()), unix.TCGETS)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestAttachDetachesByKeysAndAgentContinues(t *testing.T) {
	c := startOnTerminal(t, newFake(t), "agents", "attach", "claude")
	before := c.before
	c.sees("attached")
	c.types("one\r")
	c.sees("main: one")
	c.types("\x10x\x15two\r") // Ctrl-P alone is passed on; Ctrl-U clears the line again
	c.sees("main: two")
	c.types("\x10\x11")
	require.Equal(t, 0, c.ends())
	c.sees("detached; the agent continues")
	require.Equal(t, before, c.modes())
}

func TestAttachLeavesTheAgentOnSignals(t *testing.T) {
	c := startOnTerminal(t, newFake(t), "agents", "attach", "claude")
	c.sees("attached")
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 128+15, c.ends())
	require.False(t, c.raw())
	require.NotContains(t, c.text(), "got ")
}

func TestAttachEndsWithTheAgentsProgram(t *testing.T) {
	c := startOnTerminal(t, newFake(t), "agents", "attach", "claude")
	c.sees("attached")
	c.types("bye\r")
	require.Equal(t, 9, c.ends())
	require.False(t, c.raw())
}

func TestExecWithoutTerminalOnInputHasNone(t *testing.T) {
	f := newFake(t)
	self, err := os.Executable()
	require.NoError(t, err)
	master, sub, err := pty.Open()
	require.NoError(t, err)
	defer master.Close()
	defer sub.Close()
	cmd := &exec.Cmd{
		Path: self, Args: []string{"polisctl", "agents", "exec", "claude", "sh", "-c", "test -t 1 || exit 4"},
		Env: append(os.Environ(), "POLIS_SOCKET="+f.socket, "GORACE="+noRaceSleep), Stdin: strings.NewReader("x"), Stdout: sub,
	}
	require.Error(t, cmd.Run())
	require.Equal(t, 4, cmd.ProcessState.ExitCode())
}

func TestTablesAreColouredOnTerminalsOnly(t *testing.T) {
	f := newFake(t)
	f.mu.Lock()
	g := f.agents["claude"]
	g.Status, g.StatusReason = api.StatusError, "OOM\x1b[2J"
	f.agents["claude"] = g
	f.mu.Unlock()
	c := startOnTerminal(t, f, "agents", "list")
	require.Equal(t, 0, c.ends())
	c.sees("\x1b[31mError\x1b[0m")
	c.sees(`claude: OOM\x1b[2J`)
	require.NotContains(t, c.text(), "\x1b[2J")
}

func TestColoursCanBeSwitchedOff(t *testing.T) {
	t.Setenv("POLIS_TEST_NO_COLOR", "1")
	c := startOnTerminal(t, newFake(t), "agents", "list")
	require.Equal(t, 0, c.ends())
	c.sees("claude")
	require.NotContains(t, c.text(), "\x1b[")
}

func TestLongCallsSpinOnTerminals(t *testing.T) {
	c := startOnTerminal(t, newFake(t), "agents", "add", "slow", "--base", "custom", "--role", "slow")
	c.sees(" starting sandbox")
	require.Equal(t, 0, c.ends())
	c.sees("\r\x1b[Kagent slow is Idle\r\n")                 // the turning line is gone
	require.Regexp(t, `[-/|\\] creating worktree`, c.text()) // whichever frames there was time for
}

func TestWatchRedrawsUntilInterrupted(t *testing.T) {
	f := newFake(t)
	c := startOnTerminal(t, f, "locks", "--watch")
	c.sees("src/main.go")
	f.mu.Lock()
	f.locks = nil
	f.mu.Unlock()
	c.sees("no locks")
	c.types("\x03") // a cooked terminal: the kernel sends SIGINT
	require.Equal(t, 128+2, c.ends())
}

func TestDiscardAsksOnATerminal(t *testing.T) {
	f := newFake(t)
	c := startOnTerminal(t, f, "discard", "claude")
	c.sees("[y/N]")
	c.types("n\n")
	require.Equal(t, 1, c.ends())
	c.sees("nothing was done")
	c = startOnTerminal(t, f, "discard", "claude")
	c.sees("[y/N]")
	c.types("yes\n")
	require.Equal(t, 0, c.ends())
	require.Contains(t, strings.Join(f.log(), "\n"), "POST /v1/agents/claude/discard")
}
