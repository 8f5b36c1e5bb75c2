package main

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestOutputWaitsForThePromptOnly: at Ctrl-C the prompt holds it back until it is answered, or the task ends by itself.
func TestOutputWaitsForThePromptOnly(t *testing.T) {
	const prompt = "anything else leaves it running: "
	t.Run("it ends by itself", func(t *testing.T) {
		more, ended, cancelled := make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
		c := startOnTerminal(t, endsLater(t, more, ended, cancelled), "run", "claude", "work")
		c.sees("before\r\n")
		c.types("\x03")
		c.sees(prompt)
		close(more)
		close(ended)
		require.Zero(t, c.ends())
		c.sees(prompt + "\r\nthe rest\r\n")
		require.Greater(t, strings.LastIndex(c.text(), "claude.1"), strings.Index(c.text(), "the rest"))
	})
	t.Run("polisd takes its time to end it", func(t *testing.T) {
		more, ended, cancelled := make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
		c := startOnTerminal(t, endsLater(t, more, ended, cancelled), "run", "claude", "work")
		c.sees("before\r\n")
		c.types("\x03")
		c.sees(prompt)
		c.types("y\n")
		<-cancelled
		close(more)
		c.sees(prompt + "y\r\nthe rest\r\n")
		close(ended)
		require.Zero(t, c.ends())
	})
}

// endsLater has a task that ends once ended is closed, and prints the rest of its output once more is.
func endsLater(t *testing.T, more, ended <-chan struct{}, cancelled chan<- struct{}) *fake {
	f := newFake(t)
	slow := &fake{dir: f.dir, socket: filepath.Join(f.dir, "slow.sock")}
	real := f.routes()
	serve(t, slow.socket, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		task := api.Task{ID: "claude.1", Agent: "claude", State: api.TaskRunning, Output: &api.OutputRange{}}
		wait := func(c <-chan struct{}) {
			select {
			case <-c:
			case <-r.Context().Done():
			}
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/run"):
			answer(w, 200, task)
		case strings.HasSuffix(r.URL.Path, "/cancel"):
			cancelled <- struct{}{}
			wait(ended)
			answer(w, 200, task)
		case strings.Contains(r.URL.Path, "/tasks/"):
			wait(ended)
			task.State, task.Final, task.EndedBy, task.ExitCode, task.Output.To = api.TaskEnded, true, api.EndExit, new(int), 16
			answer(w, 200, task)
		case strings.HasSuffix(r.URL.Path, "/logs"):
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, "before\n")
			_ = http.NewResponseController(w).Flush()
			wait(more)
			_, _ = io.WriteString(w, "the rest\n")
			_ = http.NewResponseController(w).Flush()
			wait(nil)
		case r.URL.Path == "/v1/approvals":
			answer(w, 200, map[string]any{"approvals": []api.Approval{}})
		default:
			real.ServeHTTP(w, r)
		}
	}))
	return slow
}
