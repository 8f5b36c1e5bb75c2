package hook

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/BurntSushi/toml"

	"polis/daemon/api"
)

// saidTimeout bounds the hook that asks what was said, in seconds.
const saidTimeout = 60

// failed is the event of a call that has failed.
const failed = "PostToolUseFailure"

// MaxEnded bounds what a program gives to its hook after a call of a tool, in bytes: the answer of the tool is in it.
const MaxEnded = 16 << 20

// saidHook is a hook that asks, after each call of a tool, what persons have said to the agent.
type saidHook struct {
	file   string
	config func(command string, host []byte) ([]byte, error)
}

// said is the hook of a program that can add to what the model reads of a call, and whose input has whether
// the call is a subagent's. That of Gemini CLI and Copilot CLI has not: a subagent would keep the text for
// itself. No hook turns hooks on that a person has turned off: the text is then the next task.
func (p Program) said() saidHook {
	switch p.Name {
	case "claude": // Claude Code, "Hooks reference", PostToolUse. Times are in seconds.
		return saidHook{"/etc/claude-code/managed-settings.d/polis-say.json", dropIn(claudeSaid)}
	case "codex": // Codex, "Managed configuration". Times are in seconds.
		return saidHook{"/etc/codex/requirements.toml", codexSaid}
	case "qwen": // Qwen Code, "Hooks", PostToolUse. Times are in milliseconds.
		return saidHook{"/etc/qwen-code/settings.json", merged(saidSettings(saidTimeout * 1000))}
	}
	return saidHook{}
}

// claudeSaid is for calls that failed, too (PostToolUseFailure): with each of them ends what its approval covers.
func claudeSaid(command string) object {
	return object{"hooks": object{"PostToolUse": entry(command, saidTimeout), failed: entry(command, saidTimeout)}}
}

func saidSettings(timeout int) func(command string) object {
	return func(command string) object { return object{"hooks": object{"PostToolUse": entry(command, timeout)}} }
}

// Ended reads what the program gives to its hook after a call of a tool (PostToolUse): the call that has ended.
func (p Program) Ended(b []byte) (Call, error) {
	c, err := p.parse(b)
	if err != nil {
		return c, api.Errorf(api.CodeBadRequest, "the call of the tool cannot be read: %w", err)
	}
	c.Input = atCwd(c.Input, c.Cwd)
	return c, nil
}

// Failed reports whether the call failed: the program adds nothing to what its model reads of that.
func (c Call) Failed() bool { return c.Event == failed }

// SaidFile is the configuration in the sandbox that names the hook that asks, after each call of a tool,
// what persons have said to the agent; "" if the program has no such hook. It can be File.
func (p Program) SaidFile() string { return p.said().file }

// SaidConfig is the content of SaidFile, over what is there already (nil if nothing).
func (p Program) SaidConfig(command string, host []byte) ([]byte, error) {
	said := p.said()
	if said.file == "" {
		return nil, fmt.Errorf("%s has no hook for texts", p.Name)
	}
	return said.config(command, host)
}

// codexSaid adds the hook to the requirements of Codex. Without a matcher it is for all tools.
func codexSaid(command string, host []byte) ([]byte, error) {
	base := object{}
	if _, err := toml.Decode(string(host), &base); err != nil {
		return nil, fmt.Errorf("the host's own file is no TOML: %w", err)
	}
	hooks := object{"PostToolUse": []any{object{"hooks": []any{object{"type": "command", "command": command, "timeout": saidTimeout}}}}}
	if own, ok := base["hooks"].(object); !ok || own["managed_dir"] == nil {
		hooks["managed_dir"] = "/etc/codex"
	}
	var out bytes.Buffer
	err := toml.NewEncoder(&out).Encode(over(base, object{"hooks": hooks}))
	return out.Bytes(), err
}

// Said is what the hook prints so that the program's model reads a text with the result of its call. The
// programs with such a hook have one format.
func (p Program) Said(from, text string) ([]byte, error) {
	return json.Marshal(object{"hookSpecificOutput": object{"hookEventName": "PostToolUse", "additionalContext": SaidText(from, text)}})
}

// SaidText is a text of a person as a model gets it.
func SaidText(from, text string) string {
	return "The person who gave you this task (" + from + ") says to you while you work:\n\n" + text
}
