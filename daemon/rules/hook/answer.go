package hook

import (
	"encoding/json"

	"polis/daemon/api"
)

// Answer is what the hook prints for a decision.
func (p Program) Answer(c Call, res api.PermissionResponse) ([]byte, error) {
	if res.Reason == "" {
		res.Reason = "denied"
	}
	return json.Marshal(p.answer(c, res))
}

// snakeCall is a call as Claude Code, Codex, Gemini CLI and Qwen Code give it. Fields that are not
// used are left out.
type snakeCall struct {
	Event string         `json:"hook_event_name"`
	Tool  string         `json:"tool_name"`
	Input map[string]any `json:"tool_input"`
	Cwd   string         `json:"cwd"`
}

func parseCall(b []byte) (Call, error) {
	var c snakeCall
	err := json.Unmarshal(b, &c)
	return Call(c), err
}

// parseCopilot reads a call of Copilot CLI, whose arguments are JSON in a text.
func parseCopilot(b []byte) (Call, error) {
	var c struct {
		Tool string          `json:"toolName"`
		Args json.RawMessage `json:"toolArgs"`
		Cwd  string          `json:"cwd"`
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return Call{}, err
	}
	args := []byte(c.Args)
	var text string
	if json.Unmarshal(args, &text) == nil {
		args = []byte(text)
	}
	out := Call{Tool: c.Tool, Cwd: c.Cwd}
	if len(args) == 0 {
		return out, nil
	}
	if err := json.Unmarshal(args, &out.Input); err != nil {
		// A tool that takes a text, such as a patch.
		out.Input = map[string]any{"input": string(args)}
	}
	return out, nil
}

func claudeAnswer(c Call, res api.PermissionResponse) any {
	yes, abort := res.Result == api.VerdictApprove, res.Result == api.VerdictAbort
	out := object{"hookEventName": c.Event}
	switch {
	case c.Event == "PermissionRequest" && yes:
		out["decision"] = object{"behavior": "allow"}
	case c.Event == "PermissionRequest":
		out["decision"] = object{"behavior": "deny", "message": res.Reason, "interrupt": abort}
	case yes:
		out["permissionDecision"], out["permissionDecisionReason"] = "allow", "approved by polis"
	default:
		out["permissionDecision"], out["permissionDecisionReason"] = "deny", res.Reason
	}
	all := object{"hookSpecificOutput": out}
	if abort {
		all["continue"], all["stopReason"] = false, res.Reason
	}
	return all
}

// codexAnswer: before a tool Codex understands a denial or nothing, and takes every other output for
// an error, after which the tool runs. It has no output that makes it stop: polisd ends the task.
func codexAnswer(c Call, res api.PermissionResponse) any {
	yes := res.Result == api.VerdictApprove
	reason := res.Reason
	if res.Result == api.VerdictAbort {
		reason += " (the task is over: stop)"
	}
	switch {
	case c.Event == "PermissionRequest" && yes:
		return object{"hookSpecificOutput": object{"hookEventName": c.Event, "decision": object{"behavior": "allow"}}}
	case c.Event == "PermissionRequest":
		return object{"hookSpecificOutput": object{"hookEventName": c.Event, "decision": object{"behavior": "deny", "message": reason}}}
	case yes:
		return object{}
	}
	return object{"hookSpecificOutput": object{"hookEventName": c.Event, "permissionDecision": "deny", "permissionDecisionReason": reason}}
}

func geminiAnswer(_ Call, res api.PermissionResponse) any {
	switch res.Result {
	case api.VerdictApprove:
		return object{"decision": "allow"}
	case api.VerdictAbort:
		return object{"decision": "deny", "reason": res.Reason, "continue": false, "stopReason": res.Reason}
	case api.VerdictDeny, api.VerdictAsk:
	}
	return object{"decision": "deny", "reason": res.Reason}
}

func copilotAnswer(_ Call, res api.PermissionResponse) any {
	if res.Result == api.VerdictApprove {
		return object{"permissionDecision": "allow"}
	}
	return object{"permissionDecision": "deny", "permissionDecisionReason": res.Reason}
}
