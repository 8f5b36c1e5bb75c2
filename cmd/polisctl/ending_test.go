package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/cmd/internal/ending"
	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// ends bounds how long polisctl lives after the signal: for the command, for what is blocked, and for a busy machine.
const ends = endAfter + ending.Bound + 20*time.Second

// piped is polisctl without a terminal.
type piped struct {
	*exec.Cmd
	t      *testing.T
	stdin  io.WriteCloser
	stdout io.ReadCloser
	stderr strings.Builder
	done   chan struct{}
	state  *os.ProcessState
}

func startPiped(t *testing.T, f *fake, args ...string) *piped {
	self, err := os.Executable()
	require.NoError(t, err)
	p := &piped{t: t, Cmd: &exec.Cmd{Path: self, Args: append([]string{"polisctl"}, args...), Env: append(os.Environ(), "POLIS_SOCKET="+f.socket, "GORACE="+noRaceSleep)}}
	p.Stderr = &p.stderr
	p.stdin, err = p.StdinPipe()
	require.NoError(t, err)
	p.stdout, err = p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	p.done = make(chan struct{})
	go func() {
		defer close(p.done)
		p.state, _ = p.Process.Wait()
	}()
	t.Cleanup(p.kill)
	return p
}

func (p *piped) kill() {
	_ = p.Process.Kill()
	<-p.done
	_ = p.Wait() // closes its pipes
}

// reads waits until polisctl has printed n bytes.
func (p *piped) reads(n int64) {
	p.t.Helper()
	_, err := io.CopyN(io.Discard, p.stdout, n)
	require.NoError(p.t, err)
}

// endsBy sends a signal, and returns the exit status as a shell has it.
func (p *piped) endsBy(sig syscall.Signal) int {
	p.t.Helper()
	require.NoError(p.t, p.Process.Signal(sig))
	select {
	case <-p.done:
	case <-time.After(ends):
		require.FailNow(p.t, "polisctl lives on after "+sig.String())
	}
	if ws := p.state.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return p.state.ExitCode()
}

// hangs is a socket that takes connections, answers the upgrade if upgrades, and then reads nothing.
func hangs(t *testing.T, socket string, upgrades bool) {
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	done := make(chan struct{})
	var conns []net.Conn
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
			if upgrades {
				_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+wire.Upgrade+"\r\n\r\n")
			}
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range conns {
			c.Close()
		}
	})
}

// TestSignalsEndPolisctlWhateverIsBlocked: a command that ignores them, a frozen agent, a shim or a polisd that hangs, a
// reader of its output that does not read.
func TestSignalsEndPolisctlWhateverIsBlocked(t *testing.T) {
	const deaf = `trap "" TERM INT HUP; echo ready; while :; do sleep 0.05; done`
	frozen := func(t *testing.T, f *fake) {
		f.mu.Lock()
		defer f.mu.Unlock()
		g := f.agents["claude"]
		g.Waiting = &api.Waiting{For: api.WaitingThaw, What: "breaker deletions: 101 in 2 s"}
		f.agents["claude"] = g
	}
	full := func(p *piped) { p.reads(1 << 10) } // the pipe is full soon, and nobody reads
	for name, c := range map[string]struct {
		args  []string
		setup func(*testing.T, *fake)
		ready func(*piped)
		sigs  []syscall.Signal
	}{
		"a command ignores TERM": {args: []string{"agents", "exec", "-n", "claude", "--", "sh", "-c", deaf}, ready: func(p *piped) { p.reads(6) }, sigs: []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP}},
		"a shell ignores TERM":   {args: []string{"agents", "shell", "-T", "claude"}, ready: func(p *piped) { p.shell(deaf) }, sigs: []syscall.Signal{syscall.SIGTERM}},
		"the agent is frozen": {args: []string{"agents", "exec", "-n", "claude", "--", "sh", "-c", deaf}, ready: func(p *piped) { p.reads(6) }, setup: frozen,
			sigs: []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}},
		"its shim hangs, and input waits": {args: []string{"agents", "exec", "claude", "cat"}, setup: func(t *testing.T, f *fake) {
			require.NoError(t, os.Remove(filepath.Join(f.dir, "shim.sock")))
			hangs(t, filepath.Join(f.dir, "shim.sock"), true)
		}, ready: func(p *piped) { p.writes(4 << 20) }, sigs: []syscall.Signal{syscall.SIGTERM}},
		"its shim does not answer": {args: []string{"agents", "attach", "-n", "claude"}, setup: func(t *testing.T, f *fake) {
			require.NoError(t, os.Remove(filepath.Join(f.dir, "shim.sock")))
			hangs(t, filepath.Join(f.dir, "shim.sock"), false)
		}, sigs: []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}},
		"the output of a command is not read": {args: []string{"agents", "exec", "-n", "claude", "yes"}, ready: full, sigs: []syscall.Signal{syscall.SIGTERM}},
		"that of the program":                 {args: []string{"agents", "attach", "claude"}, ready: func(p *piped) { p.writes(4 << 20) }, sigs: []syscall.Signal{syscall.SIGTERM}},
		"that of a follower":                  {args: []string{"events", "-f"}, setup: floods, ready: full, sigs: []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}},
		"polisd hangs":                        {args: []string{"agents", "list"}, setup: polisdHangs, sigs: []syscall.Signal{syscall.SIGTERM}},
		"polisd hangs, a log is followed":     {args: []string{"agents", "watch", "-f", "claude"}, setup: polisdHangs, sigs: []syscall.Signal{syscall.SIGTERM}},
		"polisd hangs, a view is watched":     {args: []string{"locks", "--watch"}, setup: polisdHangs, sigs: []syscall.Signal{syscall.SIGTERM}},
		"polisd hangs, a task is waited for":  {args: []string{"run", "claude", "work"}, setup: polisdHangs, sigs: []syscall.Signal{syscall.SIGTERM}},
	} {
		for _, sig := range c.sigs {
			t.Run(name+"/"+sig.String(), func(t *testing.T) {
				t.Parallel()
				f := newFake(t)
				if c.setup != nil {
					c.setup(t, f)
				}
				p := startPiped(t, f, c.args...)
				if c.ready != nil {
					c.ready(p)
				} else {
					time.Sleep(500 * time.Millisecond) // it waits for an answer
				}
				require.Equal(t, 128+int(sig), p.endsBy(sig))
			})
		}
	}
}

// shell types a script into a shell.
func (p *piped) shell(script string) {
	_, err := io.WriteString(p.stdin, script+"\n")
	require.NoError(p.t, err)
	p.reads(6)
}

// writes writes to its input, until it does not read any more.
func (p *piped) writes(n int) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = p.stdin.Write([]byte(strings.Repeat("line\n", n/5)))
	}()
	p.t.Cleanup(func() { p.kill(); <-done })
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

// floods makes polisd send events without end.
func floods(t *testing.T, f *fake) {
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := uint64(1); ; i++ {
			select {
			case f.events <- api.Event{ID: i, Type: api.EventDenied, Message: strings.Repeat("x", 1000)}:
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
}

func polisdHangs(t *testing.T, f *fake) {
	require.NoError(t, os.Remove(f.socket))
	hangs(t, f.socket, false)
}

// TestASignalEndsPolisctlWhileATaskIsStopped: polisd hangs after the question was answered.
func TestASignalEndsPolisctlWhileATaskIsStopped(t *testing.T) {
	f := newFake(t)
	slow, asked := &fake{dir: f.dir, socket: filepath.Join(f.dir, "slow.sock")}, make(chan string, 8)
	real := f.routes()
	serve(t, slow.socket, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/run"):
			answer(w, 200, api.Task{ID: "claude.1", Agent: "claude", State: api.TaskRunning})
		case strings.Contains(r.URL.Path, "/tasks/"):
			asked <- r.Method
			<-r.Context().Done()
		default:
			real.ServeHTTP(w, r)
		}
	}))
	c := startOnTerminal(t, slow, "run", "--wait", "claude", "work")
	require.Equal(t, "GET", <-asked)
	c.types("\x03")
	c.sees("Stop task claude.1?")
	c.types("y\n")
	require.Equal(t, "POST", <-asked)
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, -int(syscall.SIGTERM), c.ends())
}
