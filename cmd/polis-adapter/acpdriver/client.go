package acpdriver

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/coder/acp-go-sdk"

	"polis/daemon/api"
)

// askTime is how long a question waits for its answer.
const askTime = time.Hour

// printer writes lines of JSON.
type printer struct {
	mu sync.Mutex
	to io.Writer
}

func (p *printer) print(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		return // an update that no JSON can be made of says nothing
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.to.Write(append(b, '\n')) // the task ends with its output
}

// caller answers the program's requests.
type caller struct {
	asker Asker
	lines *printer
	abort func() // ends the turn
}

var _ acp.Client = (*caller)(nil)

func (c *caller) SessionUpdate(_ context.Context, n acp.SessionNotification) error {
	c.lines.print(n.Update)
	return nil
}

// RequestPermission asks polis. The options' IDs are the program's own: kinds say what they mean.
func (c *caller) RequestPermission(ctx context.Context, p acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	tool, input := question(p.ToolCall)
	res, err := c.asker.Ask(ctx, api.PermissionRequest{Tool: tool, Input: input, TimeoutSeconds: int(askTime / time.Second)})
	verdict, reason := res.Result, res.Reason
	if err != nil {
		verdict, reason = api.VerdictDeny, api.AsError(err).Message
	}
	c.lines.print(map[string]any{"type": "permission", "toolCallId": p.ToolCall.ToolCallId, "result": verdict, "reason": reason})
	if verdict == api.VerdictAbort {
		c.abort()
	}
	return acp.RequestPermissionResponse{Outcome: choose(p.Options, verdict)}, nil
}

// choose returns the option of the kind that the verdict is; without one the question is cancelled.
func choose(options []acp.PermissionOption, verdict api.Verdict) acp.RequestPermissionOutcome {
	var kinds []acp.PermissionOptionKind
	switch verdict {
	case api.VerdictApprove:
		// What holds for longer is remembered by polis, not by the program.
		kinds = []acp.PermissionOptionKind{acp.PermissionOptionKindAllowOnce, acp.PermissionOptionKindAllowAlways}
	case api.VerdictDeny:
		kinds = []acp.PermissionOptionKind{acp.PermissionOptionKindRejectOnce, acp.PermissionOptionKindRejectAlways}
	}
	for _, kind := range kinds {
		for _, o := range options {
			if o.Kind == kind {
				return acp.NewRequestPermissionOutcomeSelected(o.OptionId)
			}
		}
	}
	return acp.NewRequestPermissionOutcomeCancelled()
}

// toolNames are names, as polis has them, of what a kind of tool does.
var toolNames = map[acp.ToolKind]string{acp.ToolKindRead: "read_file", acp.ToolKindEdit: "edit_file", acp.ToolKindDelete: "edit_file", acp.ToolKindMove: "edit_file",
	acp.ToolKindSearch: "grep", acp.ToolKindExecute: "bash", acp.ToolKindFetch: "web_fetch"}

// question describes a call for polis: the tool by its kind, and its arguments.
func question(call acp.ToolCallUpdate) (tool string, input map[string]any) {
	kind, title := acp.ToolKindOther, ""
	if call.Kind != nil {
		kind = *call.Kind
	}
	if call.Title != nil {
		title = *call.Title
	}
	input = map[string]any{}
	if raw, ok := call.RawInput.(map[string]any); ok {
		for k, v := range raw {
			input[k] = v
		}
	} else if call.RawInput != nil {
		input["input"] = call.RawInput
	}
	tool, known := toolNames[kind]
	if !known {
		tool = "acp_" + string(kind)
	}
	has := func(keys ...string) bool {
		for _, k := range keys {
			if s, ok := input[k].(string); ok && s != "" {
				return true
			}
		}
		return false
	}
	switch {
	case tool == "bash" && !has("command", "cmd"):
		input["command"] = title // most programs give the command as the title
	case (tool == "read_file" || tool == "edit_file") && !has("file_path", "filePath", "absolute_path", "path") && len(call.Locations) > 0:
		input["file_path"] = call.Locations[0].Path
	case !known && title != "":
		input["title"] = title
	}
	return tool, input
}

func (c *caller) ReadTextFile(context.Context, acp.ReadTextFileRequest) (acp.ReadTextFileResponse, error) {
	return acp.ReadTextFileResponse{}, acp.NewMethodNotFound("fs/read_text_file")
}

func (c *caller) WriteTextFile(context.Context, acp.WriteTextFileRequest) (acp.WriteTextFileResponse, error) {
	return acp.WriteTextFileResponse{}, acp.NewMethodNotFound("fs/write_text_file")
}

func (c *caller) CreateTerminal(context.Context, acp.CreateTerminalRequest) (acp.CreateTerminalResponse, error) {
	return acp.CreateTerminalResponse{}, acp.NewMethodNotFound("terminal/create")
}

func (c *caller) KillTerminal(context.Context, acp.KillTerminalRequest) (acp.KillTerminalResponse, error) {
	return acp.KillTerminalResponse{}, acp.NewMethodNotFound("terminal/kill")
}

func (c *caller) TerminalOutput(context.Context, acp.TerminalOutputRequest) (acp.TerminalOutputResponse, error) {
	return acp.TerminalOutputResponse{}, acp.NewMethodNotFound("terminal/output")
}

func (c *caller) ReleaseTerminal(context.Context, acp.ReleaseTerminalRequest) (acp.ReleaseTerminalResponse, error) {
	return acp.ReleaseTerminalResponse{}, acp.NewMethodNotFound("terminal/release")
}

func (c *caller) WaitForTerminalExit(context.Context, acp.WaitForTerminalExitRequest) (acp.WaitForTerminalExitResponse, error) {
	return acp.WaitForTerminalExitResponse{}, acp.NewMethodNotFound("terminal/wait_for_exit")
}
