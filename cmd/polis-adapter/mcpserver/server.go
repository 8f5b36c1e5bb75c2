package mcpserver

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// Polis is what the tools need of the agent's socket.
type Polis interface {
	Status(ctx context.Context) (client.InsideStatus, error)
	Why(ctx context.Context) ([]api.WhyEntry, error)
	Wait(ctx context.Context, req api.WaitRequest) (api.WaitResponse, error)
	Lock(ctx context.Context, req api.LockRequest) (api.Lock, error)
	Unlock(ctx context.Context, req api.LockRequest) error
	StatusUpdate(ctx context.Context, req api.StatusUpdate) error
	TaskComplete(ctx context.Context, req api.TaskComplete) (api.DoneResponse, error)
	Ask(ctx context.Context, req api.PermissionRequest) (api.PermissionResponse, error)
}

// Serve answers on standard input and output until the client closes them or ctx ends.
func Serve(ctx context.Context, p Polis, version string) error {
	return New(p, version).Run(ctx, &mcp.StdioTransport{})
}

// New makes the server with its tools.
func New(p Polis, version string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "polis", Version: version}, &mcp.ServerOptions{
		Instructions: "You work in a sandbox of polis, beside other agents on the same repository. A write that fails with EBUSY means that another agent has the file: " +
			"why says which, wait waits for your turn. A write that fails with EACCES is not allowed to you: why says by which rule."})
	t := tools{p}
	mcp.AddTool(s, &mcp.Tool{Name: "status_update", Description: "Tell the people who watch how you get on: one line when something has changed."}, t.statusUpdate)
	mcp.AddTool(s, &mcp.Tool{Name: "task_complete", Description: "End your task, once. Commit first: what is in no commit is not merged."}, t.taskComplete)
	mcp.AddTool(s, &mcp.Tool{Name: "why", Description: "The last refusals that your programs met (path, rule or holder, what to do), the newest last."}, t.why)
	mcp.AddTool(s, &mcp.Tool{Name: "wait", Description: "Wait until a file that another agent has locked can be written. It is then kept for you for some seconds."}, t.wait)
	mcp.AddTool(s, &mcp.Tool{Name: "lock", Description: "Lock a file or a directory for you, before changes that belong together. Writing a file locks it by itself."}, t.lock)
	mcp.AddTool(s, &mcp.Tool{Name: "unlock", Description: "Give back a lock that you took with lock."}, t.unlock)
	mcp.AddTool(s, &mcp.Tool{Name: "approval", Description: "Ask for a permission for a call of a tool, and wait for the answer. For --permission-prompt-tool."}, t.approval)
	return s
}

// repositoryPath turns what a model names into a path of the repository.
func repositoryPath(ctx context.Context, p Polis, path string) (string, error) {
	if !filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	st, err := p.Status(ctx)
	if err != nil {
		return "", err
	}
	for _, top := range []string{st.Project, st.Worktree} {
		if rest, ok := strings.CutPrefix(filepath.Clean(path), top+"/"); ok && top != "" {
			return rest, nil
		}
	}
	return "", api.Errorf(api.CodePathTraversal, "path = %q: must be a path inside the repository, %s", api.Shorten(path, 200), st.Project)
}

// failed is an error as the model reads it.
func failed(err error) error {
	e := api.AsError(err)
	if e.Hint != "" {
		return api.Errorf(e.Code, "%s: %s; %s", e.Code, e.Message, e.Hint)
	}
	return api.Errorf(e.Code, "%s: %s", e.Code, e.Message)
}

func text(format string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: format}}}
}
