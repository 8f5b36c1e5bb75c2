package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"polis/daemon/api"
)

// Bounds of the tools: an MCP client gives a call up after a while.
const (
	usualWait = 60 * time.Second
	maxWait   = 10 * time.Minute
	keepPath  = 5 * time.Second
	usualAsk  = time.Hour
)

type tools struct{ polis Polis }

type statusIn struct {
	Status      string `json:"status,omitempty" jsonschema:"one word, such as thinking, working or waiting"`
	Message     string `json:"message" jsonschema:"one line for people"`
	CurrentTool string `json:"currentTool,omitempty" jsonschema:"the tool that you use now"`
}

func (t tools) statusUpdate(ctx context.Context, _ *mcp.CallToolRequest, in statusIn) (*mcp.CallToolResult, any, error) {
	if err := t.polis.StatusUpdate(ctx, api.StatusUpdate{Status: in.Status, Message: in.Message, Tool: in.CurrentTool}); err != nil {
		return nil, nil, failed(err)
	}
	return text("noted"), nil, nil
}

type completeIn struct {
	Success *bool  `json:"success,omitempty" jsonschema:"false if the task did not succeed: its branch is then not merged"`
	Message string `json:"message" jsonschema:"what you did, for people"`
}

func (t tools) taskComplete(ctx context.Context, _ *mcp.CallToolRequest, in completeIn) (*mcp.CallToolResult, any, error) {
	res, err := t.polis.TaskComplete(ctx, api.TaskComplete{Success: in.Success, Message: in.Message})
	switch {
	case err != nil:
		return nil, nil, failed(err)
	case res.Already:
		return text("task " + res.Task + " had ended already"), nil, nil
	}
	return text("task " + res.Task + " has ended"), nil, nil
}

type noIn struct{}

func (t tools) why(ctx context.Context, _ *mcp.CallToolRequest, _ noIn) (*mcp.CallToolResult, any, error) {
	all, err := t.polis.Why(ctx)
	if err != nil {
		return nil, nil, failed(err)
	}
	if len(all) == 0 {
		return text("nothing was refused yet"), nil, nil
	}
	var b strings.Builder
	for _, w := range all {
		fmt.Fprintf(&b, "%s %s %q: %s (%s)", w.Time.Format(time.TimeOnly), w.Op, w.Path, w.Name(), w.Errno)
		for _, part := range []struct{ name, text string }{{"holder", w.Holder}, {"rule", w.Rule}, {"hint", w.Hint}} {
			if part.text != "" {
				fmt.Fprintf(&b, "; %s: %s", part.name, part.text)
			}
		}
		b.WriteByte('\n')
	}
	return text(b.String()), nil, nil
}

type waitIn struct {
	Path    string `json:"path" jsonschema:"the file"`
	Seconds int    `json:"seconds,omitempty" jsonschema:"how long to wait, at most 600; 60 if left out"`
}

func (t tools) wait(ctx context.Context, _ *mcp.CallToolRequest, in waitIn) (*mcp.CallToolResult, any, error) {
	path, err := repositoryPath(ctx, t.polis, in.Path)
	if err != nil {
		return nil, nil, failed(err)
	}
	limit := usualWait
	if in.Seconds > 0 {
		limit = min(time.Duration(in.Seconds)*time.Second, maxWait)
	}
	res, err := t.polis.Wait(ctx, api.WaitRequest{Path: path, WaitMillis: int(limit.Milliseconds()), KeepMillis: int(keepPath.Milliseconds())})
	if err != nil {
		return nil, nil, failed(err)
	}
	out := path + " is free, and kept for you for 5 seconds"
	if c := res.Changed; c != nil {
		out += "; " + c.Text()
	}
	return text(out), nil, nil
}

type lockIn struct {
	Path    string `json:"path" jsonschema:"a file, or with tree a directory"`
	Tree    bool   `json:"tree,omitempty" jsonschema:"everything in the directory"`
	Reason  string `json:"reason,omitempty" jsonschema:"why, for the agents that wait"`
	Seconds int    `json:"seconds,omitempty" jsonschema:"how long at most; as configured if left out"`
}

func (t tools) lock(ctx context.Context, _ *mcp.CallToolRequest, in lockIn) (*mcp.CallToolResult, any, error) {
	path, err := repositoryPath(ctx, t.polis, in.Path)
	if err != nil {
		return nil, nil, failed(err)
	}
	if _, err := t.polis.Lock(ctx, api.LockRequest{Path: path, Tree: in.Tree, Reason: in.Reason, ForSeconds: in.Seconds}); err != nil {
		return nil, nil, failed(err)
	}
	return text(path + " is locked for you; unlock gives it back"), nil, nil
}

type unlockIn struct {
	Path string `json:"path" jsonschema:"what you locked"`
}

func (t tools) unlock(ctx context.Context, _ *mcp.CallToolRequest, in unlockIn) (*mcp.CallToolResult, any, error) {
	path, err := repositoryPath(ctx, t.polis, in.Path)
	if err != nil {
		return nil, nil, failed(err)
	}
	if err := t.polis.Unlock(ctx, api.LockRequest{Path: path}); err != nil {
		return nil, nil, failed(err)
	}
	return text(path + " is not locked by you any more"), nil, nil
}

type approvalIn struct {
	Tool  string         `json:"tool_name" jsonschema:"the tool that is to be used"`
	Input map[string]any `json:"input" jsonschema:"its arguments"`
	UseID string         `json:"tool_use_id,omitempty" jsonschema:"the ID of the call"`
}

// decision is the answer to a permission prompt of Claude Code (--permission-prompt-tool).
type decision struct {
	Behavior  string         `json:"behavior"`
	Input     map[string]any `json:"updatedInput,omitempty"`
	Message   string         `json:"message,omitempty"`
	Interrupt bool           `json:"interrupt,omitempty"`
}

// approval never fails but denies: a caller could take an error for no answer.
func (t tools) approval(ctx context.Context, _ *mcp.CallToolRequest, in approvalIn) (*mcp.CallToolResult, any, error) {
	d := decision{Behavior: "deny"}
	res, err := t.polis.Ask(ctx, api.PermissionRequest{Tool: in.Tool, Input: in.Input, RequestID: in.UseID, TimeoutSeconds: int(usualAsk / time.Second)})
	switch {
	case err != nil:
		d.Message = failed(err).Error()
	case res.Result == api.VerdictApprove:
		d = decision{Behavior: "allow", Input: in.Input}
		if d.Input == nil {
			d.Input = map[string]any{}
		}
	default:
		if d.Message = res.Reason; d.Message == "" {
			d.Message = "it is denied"
		}
		d.Interrupt = res.Result == api.VerdictAbort
	}
	b, err := json.Marshal(d)
	if err != nil {
		return nil, nil, err
	}
	return text(string(b)), nil, nil
}
