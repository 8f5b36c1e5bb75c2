package hook

import (
	"encoding/json"

	"polis/daemon/api"
)

// saidTimeout bounds the hook that asks what was said, in seconds.
const saidTimeout = 60

// SaidFile is the configuration in the sandbox that names the hook that asks, after each call of a tool,
// what persons have said to the agent; "" if the program has no such hook.
func (p Program) SaidFile() string {
	if p.Name == "claude" {
		return "/etc/claude-code/managed-settings.d/polis-say.json"
	}
	return ""
}

// SaidConfig is the content of SaidFile ("Hooks reference" of Claude Code: PostToolUse).
func (p Program) SaidConfig(command string) ([]byte, error) {
	return encode(object{"hooks": object{"PostToolUse": entry(command, saidTimeout)}})
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

// Said is what the hook prints so that the program's model reads a text with the result of its call.
func (p Program) Said(from, text string) ([]byte, error) {
	return json.Marshal(object{"hookSpecificOutput": object{"hookEventName": "PostToolUse", "additionalContext": SaidText(from, text)}})
}

// SaidText is a text of a person as a model gets it.
func SaidText(from, text string) string {
	return "The person who gave you this task (" + from + ") says to you while you work:\n\n" + text
}
