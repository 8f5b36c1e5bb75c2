package acpdriver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/coder/acp-go-sdk"

	"polis/daemon/api"
)

// Times of the program's start and end.
const (
	startTime = 2 * time.Minute // until it has a session
	endTime   = 5 * time.Second // after its input was closed
	killTime  = 5 * time.Second // after SIGTERM
)

// Asker decides about a permission: the agent's socket.
type Asker interface {
	Ask(ctx context.Context, req api.PermissionRequest) (api.PermissionResponse, error)
}

// Listener takes what persons say to the agent during the task: the agent's socket.
type Listener interface {
	TakeSaid(ctx context.Context) (said api.SaidResponse, ok bool, err error)
}

// Driver gives one task to one program. Set all fields.
type Driver struct {
	Asker Asker
	// Listener has the next prompts of the session.
	Listener Listener
	Command  []string
	Prompt   string
	// Model is the model that the session uses; empty: the program's usual one.
	Model string
	Dir   string
	// Out gets the updates, a line of JSON each, Errors the program's standard error.
	Out, Errors io.Writer
}

// Run returns when the program has ended its turn, and nobody has said anything meanwhile, with the exit status of the task: 0 if the turn
// ended by itself.
func (d *Driver) Run(ctx context.Context) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.Command[0], d.Command[1:]...) //nolint:forbidigo // the agent's own program, in its sandbox
	cmd.Dir, cmd.Stderr = d.Dir, d.Errors
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killTime
	in, err := cmd.StdinPipe()
	if err != nil {
		return 1, err
	}
	// A pipe of our own: Wait must not close it while answers are read.
	out, to, err := os.Pipe()
	if err != nil {
		return 1, err
	}
	defer out.Close()
	cmd.Stdout = to
	err = cmd.Start()
	_ = to.Close() // the program has it
	if err != nil {
		return 127, api.Errorf(api.CodeBadState, "start %s: %w", d.Command[0], err).WithHint("acp of its base type is the command line")
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	status, err := d.turn(ctx, in, out)
	_ = in.Close() // its end of input is the end of its work
	select {
	case <-ended:
	case <-time.After(endTime):
		cancel()
		<-ended
	}
	return status, err
}

// turn makes a session and sends the prompt.
func (d *Driver) turn(ctx context.Context, in io.Writer, out io.Reader) (int, error) {
	lines := &printer{to: d.Out}
	c := &caller{asker: d.Asker, lines: lines}
	conn := acp.NewClientSideConnection(c, in, out)
	conn.SetLogger(slog.New(slog.NewTextHandler(d.Errors, &slog.HandlerOptions{Level: slog.LevelError})))
	start, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if _, err := conn.Initialize(start, acp.InitializeRequest{ProtocolVersion: acp.ProtocolVersionNumber,
		ClientInfo: &acp.Implementation{Name: "polis", Version: "1"}}); err != nil {
		return lines.fail("initialize", err)
	}
	session, err := conn.NewSession(start, acp.NewSessionRequest{Cwd: d.Dir, McpServers: []acp.McpServer{}})
	if err != nil {
		return lines.fail("session/new", err)
	}
	if d.Model != "" {
		if _, err := conn.UnstableSetSessionModel(start, acp.UnstableSetSessionModelRequest{SessionId: session.SessionId, ModelId: acp.UnstableModelId(d.Model)}); err != nil {
			return lines.fail("session/set_model", err)
		}
	}
	c.abort = func() {
		// The turn then ends as cancelled. A program that does not know how ends with the task.
		_ = conn.Cancel(ctx, acp.CancelNotification{SessionId: session.SessionId})
	}
	for prompt := d.Prompt; ; {
		res, err := conn.Prompt(ctx, acp.PromptRequest{SessionId: session.SessionId, Prompt: []acp.ContentBlock{acp.TextBlock(prompt)}})
		if err != nil {
			return lines.fail("session/prompt", err)
		}
		var more bool
		if res.StopReason == acp.StopReasonEndTurn {
			prompt, more = d.next(ctx)
		}
		if more {
			continue
		}
		lines.print(map[string]any{"type": "result", "stopReason": res.StopReason})
		if res.StopReason != acp.StopReasonEndTurn {
			return 1, nil
		}
		return 0, nil
	}
}

// next returns what a person said during the turn. Without polisd nothing is delivered: it is the next task.
func (d *Driver) next(ctx context.Context) (prompt string, ok bool) {
	said, ok, err := d.Listener.TakeSaid(ctx)
	return said.Text, ok && err == nil
}

// fail reports that a request failed.
func (p *printer) fail(method string, err error) (int, error) {
	text := err.Error()
	var re *acp.RequestError
	if errors.As(err, &re) {
		text = fmt.Sprintf("%s (code %d)", re.Message, re.Code)
	}
	text = method + ": " + text
	p.print(map[string]any{"type": "error", "message": text})
	return 1, nil
}
