package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// background is polisctl without a terminal.
type background struct {
	t   *testing.T
	cmd *exec.Cmd
	mu  sync.Mutex
	out bytes.Buffer
}

func (b *background) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.Write(p)
}

func (b *background) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.out.String()
}

func startInBackground(t *testing.T, socket string, args ...string) *background {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	b := &background{t: t}
	b.cmd = &exec.Cmd{
		Path: self, Args: append([]string{"polisctl"}, args...),
		Env:    append(os.Environ(), "POLIS_SOCKET="+socket, "GORACE="+noRaceSleep),
		Stdout: b, Stderr: b,
	}
	require.NoError(t, b.cmd.Start())
	t.Cleanup(func() {
		if b.cmd.ProcessState == nil {
			_ = b.cmd.Process.Kill()
			_ = b.cmd.Wait()
		}
	})
	return b
}

func (b *background) sees(want string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return strings.Contains(b.text(), want) }, 20*time.Second, 5*time.Millisecond, "waiting for %q", want)
}

func (b *background) ends(sig syscall.Signal, status int) {
	b.t.Helper()
	require.NoError(b.t, b.cmd.Process.Signal(sig))
	_ = b.cmd.Wait()
	require.Equal(b.t, status, b.cmd.ProcessState.ExitCode(), b.text())
}

func TestFollowedEventsContinueAcrossARestart(t *testing.T) {
	dir, err := os.MkdirTemp("", "polis")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "polisd.sock")
	var calls atomic.Int32
	serve(t, socket, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/health" {
			answer(w, 200, struct{}{})
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		switch n := calls.Add(1); n {
		case 1:
			fmt.Fprint(w, "data: {\"id\":1,\"message\":\"before\"}\n\n")
		case 2: // a daemon that goes away at once
		case 3:
			fmt.Fprintf(w, "data: {\"id\":2,\"message\":\"after %s\"}\n\n", r.Header.Get("Last-Event-ID"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	b := startInBackground(t, socket, "events", "-f", "--json")
	b.sees(`"message":"after 1"`)
	require.Equal(t, 1, strings.Count(b.text(), "before"))
	b.ends(syscall.SIGINT, 130)
	require.NotContains(t, b.text(), "INTERNAL")
}

func TestFollowedOutputContinuesAcrossARestart(t *testing.T) {
	dir, err := os.MkdirTemp("", "polis")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "polisd.sock")
	var calls atomic.Int32
	var asked sync.Map
	serve(t, socket, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := calls.Add(1)
		asked.Store(n, r.URL.RawQuery)
		w.Header().Set("Content-Type", "text/plain")
		switch n {
		case 1:
			w.Header().Set(api.HeaderLogPosition, "100")
			fmt.Fprint(w, "one\nhalf a ")
		case 2:
			refuse(w, api.Errorf(api.CodeUnavailable, "polisd stops"))
		case 3:
			w.Header().Set(api.HeaderLogPosition, "111")
			fmt.Fprint(w, "line\n")
		case 4:
			w.Header().Set(api.HeaderLogPosition, "500")
			w.Header().Set(api.HeaderLogMissed, "1")
			fmt.Fprint(w, "much later\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	b := startInBackground(t, socket, "agents", "watch", "-f", "-n", "7", "claude")
	b.sees("much later")
	require.Contains(t, b.text(), "one\nhalf a line\n", "nothing is lost and nothing comes twice")
	require.Contains(t, b.text(), "some of the output of agent claude is missing here")
	for n, want := range map[int32]string{1: "follow=1&lines=7", 3: "follow=1&from=111", 4: "follow=1&from=116"} {
		q, _ := asked.Load(n)
		require.Contains(t, q, want)
	}
	before := b.text()
	b.ends(syscall.SIGTERM, 143)
	require.Equal(t, before, b.text(), "it ends without a word")
}

// TestWhatIsFollowedEndsQuietly: interrupting an endless stream prints no error.
func TestWhatIsFollowedEndsQuietly(t *testing.T) {
	f := newFake(t)
	for _, args := range [][]string{
		{"agents", "list", "--watch"}, {"locks", "--watch"}, {"queue", "--watch"}, {"conflicts", "--watch"}, {"events", "-f"},
		{"agents", "list", "--watch", "--json"}, {"events", "-f", "--json"},
	} {
		for sig, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			b := startInBackground(t, f.socket, args...)
			if args[0] == "events" {
				b.sees("evil") // the last one that the fake has
			}
			b.sees("\n")
			before := b.text()
			b.ends(sig, status)
			require.Equal(t, before, b.text(), "%v", args)
			for _, word := range []string{"hint", "interrupted", "error", "--help"} {
				require.NotContains(t, b.text(), word, "%v", args)
			}
		}
	}
}

// TestWatchContinuesAcrossARestart: a view that is watched is there again when polisd is.
func TestWatchContinuesAcrossARestart(t *testing.T) {
	dir, err := os.MkdirTemp("", "polis")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "polisd.sock")
	var calls atomic.Int32
	serve(t, socket, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch n := calls.Add(1); {
		case n == 1:
			answer(w, 200, map[string]any{"agents": []api.Agent{{Name: "before"}}})
		case n < 4:
			panic(http.ErrAbortHandler)
		default:
			answer(w, 200, map[string]any{"agents": []api.Agent{{Name: "after"}}})
		}
	}))
	b := startInBackground(t, socket, "agents", "list", "--watch", "--json")
	b.sees("before")
	b.sees("after")
	require.NotContains(t, b.text(), "error")
	b.ends(syscall.SIGINT, 130)
}

func TestFollowedEventsEndWithARefusal(t *testing.T) {
	dir, err := os.MkdirTemp("", "polis")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "polisd.sock")
	serve(t, socket, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/health" {
			answer(w, 200, struct{}{})
			return
		}
		refuse(w, api.Errorf(api.CodeForbidden, "not you"))
	}))
	b := startInBackground(t, socket, "events", "-f")
	_ = b.cmd.Wait()
	require.Equal(t, exitForbidden, b.cmd.ProcessState.ExitCode())
}

func TestCallsEndWithSignalsAndTimeouts(t *testing.T) {
	dir, err := os.MkdirTemp("", "polis")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "polisd.sock")
	entered := make(chan struct{}, 4)
	serve(t, socket, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-r.Context().Done()
	}))
	for sig, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		b := startInBackground(t, socket, "agents", "list")
		<-entered
		b.ends(sig, status)
		require.Contains(t, b.text(), "polisctl: interrupted")
	}
	b := startInBackground(t, socket, "agents", "list", "--timeout", "50ms")
	_ = b.cmd.Wait()
	require.Equal(t, exitTimeout, b.cmd.ProcessState.ExitCode())
	require.Contains(t, b.text(), "did not answer in time")
}

func TestWatchWithoutTerminalPrintsChanges(t *testing.T) {
	f := newFake(t)
	b := startInBackground(t, f.socket, "agents", "list", "--watch", "--json")
	b.sees("\n")
	time.Sleep(watchEvery + watchEvery/2) // a look without change
	f.mu.Lock()
	f.agents = map[string]api.Agent{}
	f.mu.Unlock()
	b.sees("{\"agents\":[]}\n")
	require.Equal(t, 2, strings.Count(b.text(), "\n"), "a view is printed when it changed, one line each: %s", b.text())
	b.ends(syscall.SIGTERM, 143)
}

func TestMuchDataGoesBothWays(t *testing.T) {
	f := newFake(t)
	self, err := os.Executable()
	require.NoError(t, err)
	data := make([]byte, 8<<20)
	_, _ = rand.Read(data)
	var out bytes.Buffer
	cmd := &exec.Cmd{
		Path: self, Args: []string{"polisctl", "agents", "exec", "claude", "cat"},
		Env: append(os.Environ(), "POLIS_SOCKET="+f.socket, "GORACE="+noRaceSleep), Stdin: bytes.NewReader(data), Stdout: &out, Stderr: io.Discard,
	}
	require.NoError(t, cmd.Run())
	require.True(t, bytes.Equal(data, out.Bytes()))
}

func TestInputThatNobodyReadsDoesNotHold(t *testing.T) {
	f := newFake(t)
	self, err := os.Executable()
	require.NoError(t, err)
	r, w, err := os.Pipe() // never written to, never closed
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	cmd := &exec.Cmd{
		Path: self, Args: []string{"polisctl", "agents", "exec", "claude", "true"},
		Env: append(os.Environ(), "POLIS_SOCKET="+f.socket, "GORACE="+noRaceSleep), Stdin: r,
	}
	require.NoError(t, cmd.Run())
}

func TestReaderThatGoesAwayEndsTheCommand(t *testing.T) {
	f := newFake(t)
	self, err := os.Executable()
	require.NoError(t, err)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd := &exec.Cmd{
		Path: self, Args: []string{"polisctl", "agents", "exec", "-n", "claude", "yes"},
		Env: append(os.Environ(), "POLIS_SOCKET="+f.socket, "GORACE="+noRaceSleep), Stdout: w,
	}
	require.NoError(t, cmd.Start())
	w.Close()
	_, err = r.Read(make([]byte, 10))
	require.NoError(t, err)
	r.Close()
	_ = cmd.Wait()
	require.Equal(t, syscall.SIGPIPE, cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
}
