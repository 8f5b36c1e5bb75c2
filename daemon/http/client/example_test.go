package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// answers is a polisd that knows the answers of these examples.
var answers = map[string]string{
	"GET /v1/agents":               `{"agents":[{"name":"claude","status":"Running","branch":"agent/claude"},{"name":"gemini","status":"Idle","branch":"agent/gemini"}]}`,
	"POST /v1/agents":              `{"name":"aider","status":"Idle","branch":"agent/aider"}`,
	"POST /v1/agents/claude/merge": `{"code":"MERGE_CONFLICT","message":"agent/claude and main change the same lines of 1 file: \"main.go\"","hint":"in the agent: git merge main","details":{"paths":["main.go"]}}`,
	"GET /v1/events": "id: 8\nevent: agent:status\ndata: {\"id\":8,\"type\":\"agent:status\",\"agent\":\"claude\",\"message\":\"agent claude: Running -> Idle\"}\n\n" +
		"id: 9\nevent: agent:merged\ndata: {\"id\":9,\"type\":\"agent:merged\",\"agent\":\"claude\",\"message\":\"branch agent/claude was merged into main\"}\n\n",
}

// socket serves the answers; a program that has a polisd uses client.DefaultSocket.
func socket() (path string, stop func()) {
	dir, err := os.MkdirTemp("", "polis")
	if err != nil {
		panic(err)
	}
	path = filepath.Join(dir, "polisd.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := answers[r.Method+" "+r.URL.Path]
		if text[0] != '{' {
			w.Header().Set("Content-Type", "text/event-stream")
		} else {
			w.Header().Set("Content-Type", "application/json")
		}
		if text[:7] == `{"code"` {
			w.WriteHeader(http.StatusConflict)
		}
		_, _ = io.WriteString(w, text)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	return path, func() { _ = srv.Close(); <-done; os.RemoveAll(dir) }
}

func Example() {
	path, stop := socket()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	c := client.New(path)
	defer c.Close()
	agents, err := c.Agents(ctx, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range agents {
		fmt.Println(a.Name, a.Status, a.Branch)
	}
	// Output:
	// claude Running agent/claude
	// gemini Idle agent/gemini
}

func ExampleClient_Add() {
	path, stop := socket()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	c := client.New(path)
	defer c.Close()
	a, err := c.Add(ctx, api.AddRequest{Name: "aider", BaseType: "aider", Ports: []int{3000}}, func(step string) { fmt.Println("...", step) })
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.Name, "works on", a.Branch)
	// Output:
	// aider works on agent/aider
}

// An error is identified by its code, and never by its text.
func ExampleClient_Merge() {
	path, stop := socket()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	c := client.New(path)
	defer c.Close()
	_, err := c.Merge(ctx, "claude", api.MergeRequest{})
	var refused *api.Error
	if errors.As(err, &refused) && refused.Code == api.CodeMergeConflict {
		fmt.Println("conflict in", refused.Details["paths"])
		fmt.Println("hint:", refused.Hint)
	}
	// Output:
	// conflict in [main.go]
	// hint: in the agent: git merge main
}

// Events continue where they ended, whatever happened to the connection.
func ExampleClient_Events() {
	path, stop := socket()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	c := client.New(path)
	defer c.Close()
	last, merged := uint64(7), errors.New("merged")
	for ctx.Err() == nil {
		err := c.Events(ctx, client.EventQuery{Since: last, Follow: true}, func(e api.Event) error {
			last = e.ID
			fmt.Println(e.ID, e.Message)
			switch e.Type {
			case api.EventEventsMissed:
				fmt.Println("read the state again: c.Status(ctx)")
			case api.EventAgentMerged:
				return merged
			}
			return nil
		})
		if errors.Is(err, merged) {
			return
		}
		if api.CodeOf(err) != api.CodeUnavailable {
			fmt.Println(err)
			return
		}
		time.Sleep(100 * time.Millisecond) // polisd may be restarting
	}
	// Output:
	// 8 agent claude: Running -> Idle
	// 9 branch agent/claude was merged into main
}
