package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

// terminal is a user's shell on a terminal of its own.
type terminal struct {
	d   *daemon
	tty *os.File

	mu   sync.Mutex
	out  bytes.Buffer
	seen int
	mark int
}

func (d *daemon) terminal(dir string) *terminal {
	d.t.Helper()
	cmd := exec.Command("/bin/sh")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PS1=outside> ", "ENV=", "SHELL=/bin/sh", "TERM=xterm", "POLIS_SOCKET="+d.path("run", "polisd.sock"), "PATH="+d.bin+":"+os.Getenv("PATH"))
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	require.NoError(d.t, err)
	t := &terminal{d: d, tty: tty}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			t.mu.Lock()
			t.out.Write(buf[:n])
			t.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	d.t.Cleanup(func() {
		// Its session is its own: whatever is left of it goes with it.
		require.NoError(d.t, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
		_ = cmd.Wait() // killed
		require.NoError(d.t, tty.Close())
		<-done
	})
	return t
}

// types sends keys as they are.
func (t *terminal) types(keys string) {
	t.d.t.Helper()
	_, err := io.WriteString(t.tty, keys)
	require.NoError(t.d.t, err)
}

// sees waits for a text that was not seen before, and returns what comes
// before it.
func (t *terminal) sees(want string) string {
	t.d.t.Helper()
	var before string
	t.d.eventually(fmt.Sprintf("%q on the terminal", want), func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		text := t.out.String()[t.seen:]
		i := strings.Index(text, want)
		if i >= 0 {
			before = text[:i]
			t.seen += i + len(want)
		}
		return i >= 0
	})
	return before
}

// has reports whether a text is there that was not seen before.
func (t *terminal) has(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Contains(t.out.String()[t.seen:], text)
}

// says runs a command line in the shell that has the terminal, and returns its output.
func (t *terminal) says(line string) string {
	t.d.t.Helper()
	t.mark++
	// What is typed is echoed: the marks are in it in two halves.
	t.types(fmt.Sprintf("s=$?; echo 'b'egin%d; (exit $s); %s; echo 'e'nd%d\r", t.mark, line, t.mark))
	t.sees(fmt.Sprintf("begin%d\r\n", t.mark))
	return strings.ReplaceAll(strings.TrimSuffix(t.sees(fmt.Sprintf("end%d\r\n", t.mark)), "\r\n"), "\r\n", "\n")
}

const place = "pwd; readlink /proc/self/ns/net; hostname"

// TestAShellInAnAgentAndBack: it is in the agent's worktree and network, has a real terminal, and
// returns the user to where the user was.
func TestAShellInAnAgentAndBack(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	d.add("alice")
	term := d.terminal(project)
	outside, modes := term.says(place), term.says("stty -g")

	term.types("polisctl agents shell alice\r")
	inside := term.says(place)
	require.Equal(t, strings.TrimSpace(d.sh("alice", place)), inside)
	require.NotEqual(t, outside, inside)
	term.says("echo mine > from-shell.txt")
	require.Equal(t, "mine\n", readFile(d.path("ws", ".polis", "worktrees", "alice", "from-shell.txt")))
	require.NoFileExists(t, filepath.Join(project, "from-shell.txt"))
	require.Equal(t, "24 80", term.says("stty size"))
	require.NoError(t, pty.Setsize(term.tty, &pty.Winsize{Rows: 51, Cols: 132}))
	d.eventually("the new size", func() bool { return term.says("stty size") == "51 132" })
	term.types("echo 'r'eady; sleep 1000\r")
	term.sees("ready\r\n")
	term.types("\x03")
	require.Equal(t, "130", term.says("echo $?"))
	term.types("exit 7\r")
	term.sees("outside> ")
	require.Equal(t, "7", term.says("echo $?"))

	require.Equal(t, outside, term.says(place))
	require.Equal(t, modes, term.says("stty -g"))
}

// TestAttachDetachAndSendToAnAgentsTerminal.
func TestAttachDetachAndSendToAnAgentsTerminal(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	d.add("alice", "--", "sh", "-c", `test -t 0 && stty -echo && echo "has a terminal"; while read line; do echo "got $line"; done`)
	d.refused(api.CodeBadState, "send", "alice", "hello")
	d.must("agents", "start", "--program", "alice")
	term := d.terminal(project)
	outside, modes := term.says(place), term.says("stty -g")
	term.types("polisctl agents attach alice\r")
	hears := func() {
		t.Helper()
		d.eventually("it is attached", func() bool {
			d.must("send", "alice", "are you there")
			time.Sleep(50 * time.Millisecond)
			return term.has("got are you there\r\n")
		})
	}
	hears()
	term.types("typed\r")
	term.sees("got typed\r\n")
	d.must("send", "alice", "from", "outside")
	term.sees("got from outside\r\n")
	term.types("\x10\x11")
	term.sees("detached")
	term.sees("outside> ")
	require.Equal(t, "0", term.says("echo $?"))
	require.Equal(t, outside, term.says(place))
	require.Equal(t, modes, term.says("stty -g"))
	a, _ := d.agent("alice")
	require.Equal(t, api.StatusRunning, a.Status, "it continues")

	term.types("polisctl agents attach alice; echo status $?\r")
	hears()
	term.types("\x03")
	term.sees("status 130\r\n")
	d.eventually("it has ended", func() bool { a, _ := d.agent("alice"); return a.Status == api.StatusIdle })
	require.Contains(t, d.must("agents", "watch", "alice"), "got from outside")
	require.Contains(t, d.must("--json", "agents", "tasks", "alice"), "from outside")
}

// TestSendAndBroadcast to agents with and without a terminal, to some that do
// not run, and to one that does not read.
func TestSendAndBroadcast(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	const loop = `while read line; do echo "$0 got $line"; done`
	for _, name := range []string{"alice", "bob", "idle"} {
		d.add(name, "--", "sh", "-c", loop)
	}
	d.add("deaf", "--", "sleep", "1000")
	d.must("agents", "start", "--program", "alice", "deaf")
	d.must("agents", "run", "bob", "the task")
	d.must("send", "bob", "--", "-x 'quoted' $HOME")
	d.eventually("the answer", func() bool {
		return strings.Contains(d.must("agents", "watch", "bob"), "the task got -x 'quoted' $HOME")
	})
	var resp api.BroadcastResponse
	r := d.ctl("--json", "broadcast", "to", "all")
	require.Equal(t, 7, r.code, r.String())
	decode(t, r.stdout, &resp)
	var told []string
	for _, r := range resp.Results {
		if r.Agent == "deaf" {
			require.Equal(t, api.CodeTimeout, r.Error.Code)
			require.Contains(t, r.Error.Message, "has not read what was sent")
			continue
		}
		require.Nil(t, r.Error)
		told = append(told, r.Agent)
	}
	require.Equal(t, []string{"alice", "bob"}, told)
	for _, name := range []string{"alice", "bob"} {
		d.eventually(name+" has read it", func() bool { return strings.Contains(d.must("agents", "watch", name), "got to all") })
	}
	require.Contains(t, d.must("agents", "watch", "deaf"), "to all", "its terminal has it, it does not read")
	require.Contains(t, d.refused(api.CodeTimeout, "send", "deaf", "again").Hint, "polisctl agents watch deaf")
	d.must("agents", "stop", "--all")
	require.Contains(t, d.must("broadcast", "hello?"), "no agent is Running")
	e := d.refused(api.CodeBadState, "send", "alice", "x")
	require.Contains(t, e.Message, "Stopped")
	require.NotEmpty(t, e.Details["allowed"])
	d.refused(api.CodeAgentNotFound, "send", "nobody", "x")
	require.NotZero(t, d.ctl("send", "alice", " ").code)
}

// Feature: multi-agent-workspaces, Property 18: Shell Context Consistency
// Feature: multi-agent-workspaces, Property 19: Shell Exit Restoration
func TestEveryShellIsInTheAgentAndEndsOutside(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	var inside [2]string
	for i, name := range []string{"alice", "bob"} {
		d.add(name)
		inside[i] = d.sh(name, "pwd; readlink /proc/self/ns/net; cat .git; hostname")
	}
	require.NotEqual(t, inside[0], inside[1])
	dirs := []string{"/", project, filepath.Join(project, "src"), d.path("ws"), "/tmp"}
	rapid.Check(t, func(rt *rapid.T) {
		who := rapid.IntRange(0, 1).Draw(rt, "agent")
		from := rapid.SampledFrom(dirs).Draw(rt, "from")
		way := rapid.SampledFrom([]string{"exit 0", "exit 3", "kill -TERM $$", "kill -KILL $$", "cd /tmp; exit 1", ""}).Draw(rt, "way out")
		// In a shell of the user's: before, the agent's shell, after.
		cmd := exec.CommandContext(t.Context(), "sh", "-c", `readlink /proc/self/ns/net /proc/self/ns/mnt; pwd
printf '%s\n' 'pwd; readlink /proc/self/ns/net; cat .git; hostname' "$1" | "$2/polisctl" agents shell "$0" 2>/dev/null
echo after; readlink /proc/self/ns/net /proc/self/ns/mnt; pwd`, []string{"alice", "bob"}[who], way, d.bin)
		cmd.Dir = from
		cmd.Env = append(os.Environ(), "POLIS_SOCKET="+d.path("run", "polisd.sock"), "SHELL=/bin/sh")
		out, err := cmd.Output()
		require.NoError(rt, err)
		text := string(out)
		i := strings.Index(text, inside[who])
		require.GreaterOrEqual(rt, i, 0, "%s is not in %s", text, inside[who])
		require.Equal(rt, text[:i], strings.TrimPrefix(text[i+len(inside[who]):], "after\n"), "where the user was")
		require.Contains(rt, text[:i], "\n"+from+"\n")
	})
}
