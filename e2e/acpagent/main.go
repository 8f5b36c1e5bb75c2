package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/coder/acp-go-sdk"
)

func main() {
	a := &agent{}
	a.conn = acp.NewAgentSideConnection(a, os.Stdout, os.Stdin)
	<-a.conn.Done()
}

// agent has one session at a time.
type agent struct {
	acp.Agent // the client never calls a method that is missing here
	conn      *acp.AgentSideConnection
	dir       string
	calls     int
}

func (a *agent) Initialize(_ context.Context, p acp.InitializeRequest) (acp.InitializeResponse, error) {
	fmt.Fprintf(os.Stderr, "the client reads files: %v\n", p.ClientCapabilities.Fs.ReadTextFile)
	return acp.InitializeResponse{ProtocolVersion: acp.ProtocolVersionNumber}, nil
}

func (a *agent) NewSession(_ context.Context, p acp.NewSessionRequest) (acp.NewSessionResponse, error) {
	a.dir = p.Cwd
	return acp.NewSessionResponse{SessionId: "one"}, nil
}

func (a *agent) UnstableSetSessionModel(_ context.Context, p acp.UnstableSetSessionModelRequest) (acp.UnstableSetSessionModelResponse, error) {
	if p.ModelId == "none" {
		return acp.UnstableSetSessionModelResponse{}, errors.New("there is no such model")
	}
	fmt.Fprintf(os.Stderr, "the model is %s\n", p.ModelId)
	return acp.UnstableSetSessionModelResponse{}, nil
}

func (a *agent) Cancel(context.Context, acp.CancelNotification) error { return nil }

func (a *agent) Prompt(ctx context.Context, p acp.PromptRequest) (acp.PromptResponse, error) {
	for line := range strings.Lines(p.Prompt[0].Text.Text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var err error
		switch word {
		case "say":
			err = a.say(ctx, rest)
		case "edit":
			file, text, _ := strings.Cut(rest, " ")
			path := filepath.Join(a.dir, file)
			err = a.call(ctx, acp.ToolKindEdit, "Write "+file, map[string]any{"file_path": path, "content": text}, func() ([]byte, error) {
				return nil, os.WriteFile(path, []byte(text+"\n"), 0o644)
			})
		case "run":
			err = a.call(ctx, acp.ToolKindExecute, rest, nil, func() ([]byte, error) { return exec.CommandContext(ctx, "sh", "-c", rest).CombinedOutput() })
		case "ask":
			err = a.strange(ctx)
		case "files":
			_, err = a.conn.ReadTextFile(ctx, acp.ReadTextFileRequest{SessionId: "one", Path: filepath.Join(a.dir, "main.txt")})
			err = a.say(ctx, fmt.Sprint("the client refuses files: ", err != nil))
		case "wait":
			<-ctx.Done()
		case "refuse":
			return acp.PromptResponse{StopReason: acp.StopReasonRefusal}, nil
		}
		if ctx.Err() != nil {
			return acp.PromptResponse{StopReason: acp.StopReasonCancelled}, nil
		}
		if err != nil {
			return acp.PromptResponse{}, err
		}
	}
	return acp.PromptResponse{StopReason: acp.StopReasonEndTurn}, nil
}

func (a *agent) update(ctx context.Context, u acp.SessionUpdate) error {
	return a.conn.SessionUpdate(ctx, acp.SessionNotification{SessionId: "one", Update: u})
}

func (a *agent) say(ctx context.Context, text string) error {
	return a.update(ctx, acp.UpdateAgentMessageText(text+"\n"))
}

// call requests a permission and then performs the step.
func (a *agent) call(ctx context.Context, kind acp.ToolKind, title string, input map[string]any, do func() ([]byte, error)) error {
	a.calls++
	id := acp.ToolCallId(fmt.Sprint("call-", a.calls))
	opts := []acp.ToolCallStartOpt{acp.WithStartKind(kind)}
	call := acp.ToolCallUpdate{ToolCallId: id, Title: &title, Kind: &kind}
	if input != nil {
		opts, call.RawInput = append(opts, acp.WithStartRawInput(input)), input
	}
	if err := a.update(ctx, acp.StartToolCall(id, title, opts...)); err != nil {
		return err
	}
	res, err := a.conn.RequestPermission(ctx, acp.RequestPermissionRequest{SessionId: "one", ToolCall: call, Options: []acp.PermissionOption{
		{OptionId: "x-always", Name: "Always", Kind: acp.PermissionOptionKindAllowAlways}, {OptionId: "x-yes", Name: "Yes", Kind: acp.PermissionOptionKindAllowOnce},
		{OptionId: "x-no", Name: "No", Kind: acp.PermissionOptionKindRejectOnce}}})
	if err != nil {
		return err
	}
	if res.Outcome.Selected == nil || res.Outcome.Selected.OptionId != "x-yes" {
		return a.say(ctx, "not permitted: "+title)
	}
	out, err := do()
	status := acp.ToolCallStatusCompleted
	if err != nil {
		status = acp.ToolCallStatusFailed
		out = []byte(err.Error())
	}
	return a.update(ctx, acp.UpdateToolCall(id, acp.WithUpdateStatus(status), acp.WithUpdateContent([]acp.ToolCallContent{acp.ToolContent(acp.TextBlock(string(out)))})))
}

// strange makes a request with an option of an unknown kind.
func (a *agent) strange(ctx context.Context) error {
	title, kind := "strange", acp.ToolKindOther
	res, err := a.conn.RequestPermission(ctx, acp.RequestPermissionRequest{SessionId: "one", ToolCall: acp.ToolCallUpdate{ToolCallId: "s", Title: &title, Kind: &kind},
		Options: []acp.PermissionOption{{OptionId: "x", Name: "Do it", Kind: "forever"}}})
	if err != nil {
		return err
	}
	return a.say(ctx, fmt.Sprint("strange was cancelled: ", res.Outcome.Cancelled != nil))
}
