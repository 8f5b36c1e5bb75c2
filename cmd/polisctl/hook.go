package main

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/client"
)

const (
	// maxHookInput bounds what a program gives to its hook, in bytes.
	maxHookInput = 1 << 20
	// hookWait is how long a hook waits for an answer.
	hookWait = time.Hour
	// statusBlocks is the exit status by which a hook stops a tool.
	statusBlocks = 2
)

func (a *app) hookCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "hook claude",
		Short: "In a sandbox: decide about a tool of an agent's program",
		Long: `Read a call of a tool from standard input and print the decision, as the hooks
PreToolUse and PermissionRequest of Claude Code want it. polis installs it as managed
configuration for agents whose role has [roles.NAME.tools]; see docs/approvals.md.

Whatever goes wrong, the exit status is 2, which stops the tool.`,
		Args: takes(1, 1, "the name of a program"),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := a.hook(cmd, args[0])
			if err == nil {
				err = a.write(out)
			}
			if err != nil {
				_, _ = a.stderr.WriteString("polis: " + clean(api.AsError(err).Message) + "\n") // the exit status reports it, too
				return childStatus(statusBlocks)
			}
			return nil
		},
	}
}

// hookCall is what Claude Code gives to a hook. Fields that are not used are left out.
type hookCall struct {
	Event string         `json:"hook_event_name"`
	Tool  string         `json:"tool_name"`
	Input map[string]any `json:"tool_input"`
	Cwd   string         `json:"cwd"`
}

func (a *app) hook(cmd *cobra.Command, program string) ([]byte, error) {
	if program != "claude" {
		return nil, usagef("there is no hook for %q", clean(program)).WithHint("claude is the one there is")
	}
	b, err := io.ReadAll(io.LimitReader(a.stdin, maxHookInput+1))
	if err != nil {
		return nil, api.Errorf(api.CodeInternal, "read standard input: %w", err)
	}
	if len(b) > maxHookInput {
		return nil, api.Errorf(api.CodeTooLarge, "the call of the tool has more than %d bytes: it cannot be judged", maxHookInput)
	}
	var call hookCall
	if err := json.Unmarshal(b, &call); err != nil {
		return nil, api.Errorf(api.CodeBadRequest, "the call of the tool cannot be read: %w", err)
	}
	if call.Event != "PreToolUse" && call.Event != "PermissionRequest" || call.Tool == "" {
		return nil, api.Errorf(api.CodeBadRequest, "hook %q of tool %q is not known", api.Shorten(call.Event, 64), api.Shorten(call.Tool, 64))
	}
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, hookWait+shortCall)
	defer cancel()
	// Always the sandbox's own socket: a variable must not lead to another.
	c := client.NewInside(client.InsideSocket)
	defer c.Close()
	res, err := c.Ask(ctx, api.PermissionRequest{Tool: call.Tool, Input: atCwd(call.Input, call.Cwd), TimeoutSeconds: int(hookWait / time.Second)})
	if err != nil {
		return nil, err
	}
	return claudeDecision(call.Event, res)
}

// atCwd makes the paths of arguments absolute.
func atCwd(input map[string]any, cwd string) map[string]any {
	for _, k := range []string{"file_path", "notebook_path", "path"} {
		if p, ok := input[k].(string); ok && p != "" && !filepath.IsAbs(p) && filepath.IsAbs(cwd) {
			input[k] = filepath.Join(cwd, p)
		}
	}
	return input
}

// claudeDecision is the answer in the form of a hook of Claude Code ("Hooks reference").
func claudeDecision(event string, res api.PermissionResponse) ([]byte, error) {
	reason := "denied"
	if res.Reason != "" {
		reason = res.Reason
	}
	yes, abort := res.Result == api.VerdictApprove, res.Result == api.VerdictAbort
	out := map[string]any{"hookEventName": event}
	if event == "PermissionRequest" {
		decision := map[string]any{"behavior": "allow"}
		if !yes {
			decision = map[string]any{"behavior": "deny", "message": reason, "interrupt": abort}
		}
		out["decision"] = decision
	} else {
		out["permissionDecision"], out["permissionDecisionReason"] = "allow", "approved by polis"
		if !yes {
			out["permissionDecision"], out["permissionDecisionReason"] = "deny", reason
		}
	}
	all := map[string]any{"hookSpecificOutput": out}
	if abort {
		all["continue"], all["stopReason"] = false, reason
	}
	return json.Marshal(all)
}
