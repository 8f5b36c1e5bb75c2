package e2e

import (
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/gateway/ledger"
)

// shimWithFailpoints builds a shim that dies where dieAt says, and has the configuration name it. It gets no
// environment of polisd's.
func shimWithFailpoints(t *testing.T) (config, step string) {
	t.Helper()
	needRoot(t)
	dir, err := os.MkdirTemp("/tmp", "polis-e2e-shim-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags", "seccomp failpoint", "-o", filepath.Join(dir, "real")+"/", "../cmd/polis-shim")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	step = filepath.Join(dir, "failpoint")
	script := "#!/bin/sh\nexport POLIS_FAILPOINT=" + step + "\nexec " + filepath.Join(dir, "real/polis-shim") + " \"$@\"\n"
	program := filepath.Join(dir, "polis-shim")
	require.NoError(t, os.WriteFile(program, []byte(script), 0o755))
	return program, step
}

// upAgain starts an agent whose shim was killed.
func (d *daemon) upAgain(agent string) {
	d.t.Helper()
	d.eventually("the agent is up", func() bool {
		d.ctl("agents", "start", "--program", agent)
		return d.exec(agent, "true").code == 0
	})
}

// counted waits until an agent has these counts, and no others.
func (d *daemon) counted(what string, requests, cut, output int64) {
	d.t.Helper()
	var c ledger.Counts
	deadline := time.Now().Add(patience)
	for {
		c = d.countsOf("ana")
		if c.Requests == requests && c.Cut == cut && c.Estimated == cut && c.Output == output {
			return
		}
		require.True(d.t, time.Now().Before(deadline), "%s: want %d requests, %d cut, %d tokens: %+v", what, requests, cut, output, c)
		time.Sleep(50 * time.Millisecond)
	}
}

// TestAKillAtEachStepOfACountLosesAndDoublesNone: of the shim, at each step of the ledger.
func TestAKillAtEachStepOfACountLosesAndDoublesNone(t *testing.T) {
	needProgram(t, "curl")
	program, file := shimWithFailpoints(t)
	s := startModelService(t)
	d := startDaemon(t, options{config: gatewayConfig(t, s.URL)})
	d.stop()
	d.write("polisd.toml", strings.Replace(readFile(d.path("polisd.toml")), filepath.Join(d.bin, "polis-shim"), program, 1))
	d.start()
	d.up()
	d.add("ana", "--role", "with")
	ask := func() result {
		return d.exec("ana", "sh", "-c", askModel+`'{"model":"good-1","stream":true}' -N`)
	}
	arm := func(step string) { require.NoError(t, os.WriteFile(file, []byte(step), 0o600)) }
	// held sends a request of which the service holds the answer, and calls do meanwhile.
	held := func(do func(release func())) {
		hold := make(chan struct{})
		n := s.requests()
		s.mu.Lock()
		s.hold = hold
		s.mu.Unlock()
		done := make(chan struct{})
		go func() { defer close(done); ask() }()
		d.eventually("the stream has begun", func() bool { return s.requests() == n+1 })
		released := false
		release := func() { released = true; close(hold) }
		do(release)
		<-done
		if !released {
			release()
		}
		s.mu.Lock()
		s.hold = nil
		s.mu.Unlock()
	}
	require.Contains(t, ask().stdout, "message_stop")
	d.counted("before", 1, 0, 3)

	for _, c := range []struct {
		step                          string
		begin                         bool // the request has not begun
		service, counted, cut, tokens int64
	}{
		{"ledger:line", true, 0, 0, 0, 0},
		{"ledger:written", true, 0, 1, 1, 0}, // it was noted, and not sent
		{"ledger:line", false, 1, 1, 1, 0},
		{"ledger:written", false, 1, 1, 0, 3},
	} {
		before, n := d.countsOf("ana"), int64(s.requests())
		if c.begin {
			arm(c.step)
			require.NotContains(t, ask().stdout, "message_stop")
		} else {
			held(func(release func()) { arm(c.step); release() })
		}
		require.NoFileExists(t, file, "%s was reached", c.step)
		d.eventually("the shim has ended", func() bool { return d.living() == 0 })
		d.upAgain("ana")
		d.counted(c.step, before.Requests+c.counted, before.Cut+c.cut, before.Output+c.tokens)
		require.Equal(t, n+c.service, int64(s.requests()), c.step)
	}

	// The shim is killed during an answer, and the next one while it notes that.
	for _, step := range []string{"ledger:summed", "ledger:emptied"} {
		before := d.countsOf("ana")
		held(func(func()) { d.killShims() })
		arm(step)
		d.eventually(step+" was reached", func() bool {
			d.ctl("agents", "start", "ana")
			_, err := os.Stat(file)
			return os.IsNotExist(err)
		})
		d.upAgain("ana")
		d.counted(step, before.Requests+1, before.Cut+1, before.Output)
	}
	require.Contains(t, ask().stdout, "message_stop")
	d.counted("after", 5+2, 4, 3+3+3)
	require.EqualValues(t, 6, s.requests(), "one was noted, and not sent")
}

// countedService is a tokenService that counts the answers that it has written, and its open connections.
type countedService struct {
	tokenService
	written, open atomic.Int64
}

// ServeHTTP is part of http.Handler.
func (s *countedService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.tokenService.ServeHTTP(w, r)
	s.written.Add(1)
}

// TestRandomKillsLoseAndDoubleNoCount: of the shim and of polisd, while three programs have answers streamed.
func TestRandomKillsLoseAndDoubleNoCount(t *testing.T) {
	needProgram(t, "python3")
	const threads, tokens = 3, 20
	service := &countedService{}
	server := httptest.NewUnstartedServer(service)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			service.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			service.open.Add(-1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	d := startDaemon(t, options{config: gatewayConfig(t, server.URL)})
	d.up()
	d.add("ana", "--role", "with")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pause := func() { time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond) }
	state := func() (requests, written int64) {
		service.mu.Lock()
		defer service.mu.Unlock()
		return service.requests, service.written.Load()
	}
	stream := func() {
		began, _ := state()
		d.sh("ana", "cat >$HOME/client.py <<'END'\n"+streamClient+"END\nsetsid nohup python3 $HOME/client.py $ANTHROPIC_BASE_URL 100000 3 20 2 0 >/dev/null 2>&1 &")
		d.eventually("answers are streamed", func() bool { n, _ := state(); return n >= began+threads })
		pause()
	}
	for kills := int64(1); kills <= 3; kills++ {
		stream()
		if kills > 1 {
			require.Error(t, d.signal(syscall.SIGKILL))
		}
		if kills == 2 { // in round 3 both are down
			d.start()
			stream() // polisd ends programs whose caller is gone
		}
		d.killShims()
		d.eventually("all connections of the service are closed", func() bool { return service.open.Load() == 0 })
		if kills == 3 {
			d.start()
		}
		d.upAgain("ana")
		requests, written := state()
		var c ledger.Counts
		d.eventually("the open requests are counted", func() bool { c = d.countsOf("ana"); return c.Requests >= requests })
		t.Logf("after %d kills: %d requests at the service, %d answers written; counted: %d requests, %d of them cut, %d tokens", kills, requests, written, c.Requests, c.Cut, c.Output)
		whole := c.Requests - c.Cut
		require.LessOrEqual(t, c.Requests, requests+threads*2*kills, "none twice: a request is noted before it is sent")
		require.LessOrEqual(t, whole, written)
		require.GreaterOrEqual(t, whole, written-threads*2*kills, "none lost: the last ones of each program can be cut")
		require.Equal(t, whole*tokens, c.Output)
		require.Equal(t, c.Cut, c.Estimated)
	}
}
