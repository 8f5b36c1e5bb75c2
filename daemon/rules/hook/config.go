package hook

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/BurntSushi/toml"
)

type object = map[string]any

// dropIn is the configuration of a program that reads a file of ours beside those of the host.
func dropIn(settings func(command string) object) func(string, []byte) ([]byte, error) {
	return func(command string, _ []byte) ([]byte, error) { return encode(settings(command)) }
}

// merged is the configuration of a program that reads one file in JSON: what the host has in it
// stays.
func merged(settings func(command string) object) func(string, []byte) ([]byte, error) {
	return func(command string, host []byte) ([]byte, error) {
		base := object{}
		if len(bytes.TrimSpace(host)) > 0 {
			if err := json.Unmarshal(host, &base); err != nil {
				return nil, fmt.Errorf("the host's own file is no JSON: %w", err)
			}
			if base == nil { // null
				base = object{}
			}
		}
		return encode(over(base, settings(command)))
	}
}

// over merges b into a: tables by key, lists one after the other; else b wins.
func over(a, b object) object {
	for k, v := range b {
		switch new := v.(type) {
		case object:
			if old, ok := a[k].(object); ok {
				a[k] = over(old, new)
				continue
			}
		case []any:
			switch old := a[k].(type) {
			case []any:
				a[k] = append(old, new...)
				continue
			case []object: // as toml has lists of tables
				for _, o := range new {
					if t, ok := o.(object); ok {
						old = append(old, t)
					}
				}
				a[k] = old
				continue
			}
		}
		a[k] = v
	}
	return a
}

func encode(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return append(b, '\n'), err
}

// entry is one hook for all tools, as most programs have it.
func entry(command string, timeout int) []any {
	return []any{object{"matcher": "*", "hooks": []any{object{"type": "command", "command": command, "timeout": timeout}}}}
}

// claudeSettings: Claude Code, "Settings files" and "Hooks reference". Times are in seconds.
func claudeSettings(command string) object {
	return object{"hooks": object{"PreToolUse": entry(command, Timeout), "PermissionRequest": entry(command, Timeout)}}
}

// qwenSettings: Qwen Code, "Hooks". Times are in milliseconds.
func qwenSettings(command string) object {
	return object{"disableAllHooks": false, "hooks": object{"PreToolUse": entry(command, Timeout*1000), "PermissionRequest": entry(command, Timeout*1000)}}
}

// geminiSettings: Gemini CLI, "Hooks reference". Times are in milliseconds.
func geminiSettings(command string) object {
	return object{"hooksConfig": object{"enabled": true, "disabled": []any{}}, "hooks": object{"BeforeTool": entry(command, Timeout*1000)}}
}

// copilotPolicy: Copilot CLI, "Hooks reference", "Policy hooks". Times are in seconds.
func copilotPolicy(command string) object {
	return object{"version": 1, "hooks": object{"preToolUse": []any{object{"type": "command", "bash": command, "timeoutSec": Timeout}}}}
}

// codexRequirements: Codex, "Managed configuration". Times are in seconds. Hooks that the
// repository or the agent brings do not run.
func codexRequirements(command string, host []byte) ([]byte, error) {
	base := object{}
	if _, err := toml.Decode(string(host), &base); err != nil {
		return nil, fmt.Errorf("the host's own file is no TOML: %w", err)
	}
	// Without a matcher a hook is for all tools.
	list := func() []any {
		return []any{object{"hooks": []any{object{"type": "command", "command": command, "timeout": Timeout}}}}
	}
	hooks := object{"PreToolUse": list(), "PermissionRequest": list()}
	if own, ok := base["hooks"].(object); !ok || own["managed_dir"] == nil {
		hooks["managed_dir"] = "/etc/codex"
	}
	var out bytes.Buffer
	err := toml.NewEncoder(&out).Encode(over(base, object{"features": object{"hooks": true}, "hooks": hooks}))
	return out.Bytes(), err
}
