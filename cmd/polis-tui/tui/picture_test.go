package tui

import (
	"context"
	"flag"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	emulator "polis/daemon/shim/screen"
	"polis/internal/picture"
)

var update = flag.Bool("update", false, "write docs/pictures/tui.svg again")

// TestPicture runs the screen on a terminal and records what it shows, as the picture of the README.
// "make pictures" writes it.
func TestPicture(t *testing.T) {
	const rows, cols = 19, 120
	master, sub, err := pty.Open()
	require.NoError(t, err)
	defer sub.Close()
	require.NoError(t, pty.Setsize(master, &pty.Winsize{Rows: rows, Cols: cols}))
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("COLORTERM", "truecolor")

	var mu sync.Mutex
	shown := emulator.New(rows, cols)
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			mu.Lock()
			_, _ = shown.Write(buf[:n]) // it keeps all in memory
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	lines := func() []string {
		mu.Lock()
		defer mu.Unlock()
		all, _ := shown.Lines(rows)
		return all
	}

	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	f := pictured()
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{Daemon: f, Colors: true, In: sub, Out: sub, Now: func() time.Time { return now }, Getenv: utf8Locale})
	}()
	var last []string
	require.Eventually(t, func() bool {
		previous := last
		last = lines()
		text := strings.Join(last, "\n")
		return strings.Contains(text, "quit") && strings.Contains(text, "page size") && text == strings.Join(previous, "\n")
	}, 30*time.Second, 200*time.Millisecond)
	_, err = master.WriteString("q")
	require.NoError(t, err)
	require.NoError(t, <-ended)
	require.NoError(t, sub.Close())
	require.NoError(t, master.Close())
	<-read

	svg := picture.Terminal("polisctl tui: all agents of a repository on one screen", cols, last)
	const path = "../../../docs/pictures/tui.svg"
	if *update {
		require.NoError(t, os.WriteFile(path, svg, 0o644)) //nolint:gosec // it is documentation
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, string(svg) == string(have), "the screen is not that of %s: run make pictures, and look at it. It shows:\n%s", path, strings.Join(last, "\n"))
}

// pictured is a daemon with the agents that the picture shows.
func pictured() *fakeDaemon {
	agent := func(name, base, status string, memory int64) api.Agent {
		return api.Agent{Name: name, BaseType: base, Workspace: "shop", Status: api.Status(status), Branch: "agent/" + name, MemoryBytes: memory << 20, MemoryLimitMB: 4096}
	}
	claude, codex, docs, tests := agent("claude", "claude", "Running", 412), agent("codex", "codex", "Running", 287), agent("docs", "custom", "Stopped", 0), agent("tests", "gemini", "Running", 198)
	claude.PortMappings = []api.PortMapping{{Agent: "claude", Internal: 3000, External: 13000, Bind: "127.0.0.1"}}
	codex.Waiting = &api.Waiting{For: api.WaitingApproval, Since: time.Date(2026, 3, 2, 9, 27, 0, 0, time.UTC), ID: "codex.k3f9q2ab", What: "tool Bash make deploy", Open: 1}
	docs.MergeStatus, docs.MergeCommitSHA = api.MergeMerged, "9f2c41d07ab3e655"
	return &fakeDaemon{
		agents: []api.Agent{claude, codex, docs, tests},
		locks:  []api.Lock{{Path: "src/cart.go", Holder: "claude"}, {Path: "src/cart_test.go", Holder: "claude"}, {Path: "api/orders.go", Holder: "codex"}, {Path: "e2e/checkout_test.go", Holder: "tests"}},
		asked:  []api.Approval{{ID: "codex.k3f9q2ab", Agent: "codex", Workspace: "shop"}},
		queues: []api.Queue{{Workspace: "shop", Entries: []api.QueueEntry{{Agent: "tests", State: api.QueueChecking}}}},
		logs: map[string]string{
			"claude": "I will fix the rounding of totals in src/cart.go.\n\x1b[32m+\x1b[0m edited src/cart.go\n$ go test ./src/...\nok   shop/src  0.412s\n",
			"codex":  "Reading api/orders.go\nThe handler lacks a limit on the page size.\n",
			"docs":   "",
			"tests":  "$ go test ./e2e/...\n--- PASS: TestCheckout (1.20s)\n",
		},
		events: func(ctx context.Context, _ uint64, _ func(api.Event) error) error {
			<-ctx.Done()
			return ctx.Err()
		},
	}
}

// utf8Locale is the environment of a terminal that has line characters.
func utf8Locale(name string) string { return map[string]string{"LANG": "C.UTF-8"}[name] }
